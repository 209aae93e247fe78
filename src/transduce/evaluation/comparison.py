"""Which differences between systems are real."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, takewhile
from typing import Any

from transduce.errors import UserError
from transduce.evaluation.results import written
from transduce.evaluation.systems import System
from transduce.evaluation.tables import aligned
from transduce.metrics.significance import LEVEL, Difference, Interval, Resampling, holm
from transduce.metrics.statistics import Statistics
from transduce.types import Example


@dataclass(frozen=True)
class Pair:
    """Two systems by one metric. ``adjusted_p`` is ``randomisation_p`` after Holm's correction over all pairs."""

    metric: str
    one: str
    other: str
    difference: Difference
    adjusted_p: float
    better: str

    @property
    def real(self) -> bool:
        return self.adjusted_p <= LEVEL


@dataclass(frozen=True)
class Comparison:
    """Systems on the same ``examples`` of ``corpus``: all pairs by every metric they can be compared by; of the metrics
    ``omitted``, why not."""

    systems: Sequence[System]
    examples: Sequence[Example]
    corpus: str
    resampling: Resampling
    intervals: dict[str, dict[str, Interval]]  # by system and metric
    pairs: Sequence[Pair]
    omitted: dict[str, str]

    @property
    def short(self) -> dict[str, str]:
        """What the systems are called in tables: their names without the folders that all of them are in."""
        names = [system.name for system in self.systems]
        folders = zip(*(name.split("/")[:-1] for name in names), strict=False)
        shared = sum(1 for _ in takewhile(lambda same: len(set(same)) == 1, folders))
        return {name: "/".join(name.split("/")[shared:]) for name in names}

    def verdict(self, pair: Pair) -> str:
        return f"{self.short[pair.better]} is better" if pair.real else "not shown"

    @property
    def metrics(self) -> list[str]:
        return list(self.intervals[self.systems[0].name])

    @property
    def signatures(self) -> dict[str, str]:
        return {each.name: each.metric.signature for each in self.systems[0].statistics if each.name in self.metrics}

    def record(self) -> dict[str, Any]:
        """As JSON takes it."""
        systems = [
            {"name": system.name, "metrics": system.scores, "intervals": self.intervals[system.name]}
            for system in self.systems
        ]
        pairs = [
            {"metric": pair.metric, "one": pair.one, "other": pair.other, "difference": pair.difference.value}
            | {"interval": pair.difference.interval, "bootstrap_p": pair.difference.bootstrap_p}
            | {"randomisation_p": pair.difference.randomisation_p, "adjusted_p": pair.adjusted_p}
            | {"better": pair.better if pair.real else None}
            for pair in self.pairs
        ]
        return {
            "corpus": self.corpus,
            "examples": len(self.examples),
            "systems": systems,
            "pairs": pairs,
            "signatures": self.signatures,
            "resampling": self.resampling.signature,
            "omitted": self.omitted,
        }

    def lines(self) -> list[str]:
        """For the terminal."""
        scores = [[self.short[system.name], *self._written(system)] for system in self.systems]
        return [
            f"{self.corpus}: {len(self.examples):,} examples",
            *aligned([["", *self.metrics], *scores], "<", gap=3, indent=2),
            "",
            *self.differences(),
            "",
            *(f"  {name}: {signature}" for name, signature in self.signatures.items()),
            f"  {self.resampling.signature}",
            *(f"  not compared: {name}, {why}" for name, why in self.omitted.items()),
        ]

    def differences(self) -> list[str]:
        """A line for each pair and metric."""
        short = self.short
        head = ["", "", "difference", "95 %", "p bootstrap", "p randomised", "p Holm", f"real at {LEVEL}?"]
        rows = [
            [pair.metric, f"{short[pair.one]} − {short[pair.other]}", f"{pair.difference.value:+.2f}"]
            + [written(pair.difference.interval, "+")]
            + [f"{p:.4f}" for p in (pair.difference.bootstrap_p, pair.difference.randomisation_p, pair.adjusted_p)]
            + [self.verdict(pair)]
            for pair in self.pairs
        ]
        return aligned([head, *rows], "<<>>>>><", indent=2)

    def _written(self, system: System) -> list[str]:
        intervals = self.intervals[system.name]
        return [f"{system.scores[name]:.2f} {written(intervals[name])}" for name in self.metrics]


def compare(
    systems: Sequence[System], examples: Sequence[Example], corpus: str, resampling: Resampling | None = None
) -> Comparison:
    """Test all pairs of systems. Raises ValueError where two have one name, or where no metric is common to all."""
    resampling = resampling or Resampling()
    names = [system.name for system in systems]
    if len(set(names)) < len(names) or len(names) < 2:
        raise UserError(f"{', '.join(names) or 'nothing'}: two or more different systems are compared")
    metrics, omitted = _common(systems)
    if not metrics:
        reasons = "; ".join(f"{name}: {why}" for name, why in omitted.items())
        raise UserError(f"no metric that {' and '.join(names)} can be compared by ({reasons}): choose with --metric")
    every = [{each.name: each for each in system.statistics} for system in systems]
    pairs = [pair for name in metrics for pair in _pairs(names, [each[name] for each in every], resampling)]
    intervals = {
        system: {name: resampling.interval(each[name]) for name in metrics}
        for system, each in zip(names, every, strict=True)
    }
    return Comparison(systems, examples, corpus, resampling, intervals, pairs, omitted)


def _common(systems: Sequence[System]) -> tuple[list[str], dict[str, str]]:
    """The metrics that all systems can be compared by, and why not by the others."""
    metrics = {each.name: each.metric for system in systems for each in system.statistics}
    vocabularies = {system.vocabulary for system in systems}
    omitted = {}
    for name, metric in metrics.items():
        without = [system.name for system in systems if name not in system.scores]
        if without:
            omitted[name] = f"which {' and '.join(without)} cannot be asked"
        elif "unit:token" in metric.signature.split("|") and len(vocabularies) > 1:
            omitted[name] = "which is of the models' own tokens, and their vocabularies differ"
    return [name for name in metrics if name not in omitted], omitted


def _pairs(names: Sequence[str], statistics: Sequence[Statistics], resampling: Resampling) -> Iterator[Pair]:
    """Of one metric, all pairs; the correction is over these."""
    found = [(a, b, resampling.difference(statistics[a], statistics[b])) for a, b in combinations(range(len(names)), 2)]
    adjusted = holm([difference.randomisation_p for _, _, difference in found])
    metric = statistics[0].metric
    for (a, b, difference), p in zip(found, adjusted, strict=True):
        better = names[a] if (difference.value > 0) == metric.higher_is_better else names[b]
        yield Pair(metric.name, names[a], names[b], difference, p, better)
