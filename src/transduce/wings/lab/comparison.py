"""Significance tests between systems: which differences are real."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, takewhile

from transduce.core.errors import UserError
from transduce.core.types import Example
from transduce.evaluation.system_results import aligned, interval_text
from transduce.evaluation.systems import System
from transduce.metrics.significance import LEVEL, Difference, Interval, Resampling, holm
from transduce.metrics.statistics import Statistics


@dataclass(frozen=True)
class Pair:
    """The significance tests of two systems by one metric. ``difference`` has the score of ``one`` minus the score of
    ``other``, with its interval and p-values.

    ``adjusted_p`` is the difference's ``randomisation_p`` with Holm's correction over the tested pairs for this metric.
    ``better`` is the name of the system with the better score, even if the difference is not significant; with equal
    scores it is one of the two.
    """

    metric: str
    one: str
    other: str
    difference: Difference
    adjusted_p: float
    better: str

    @property
    def real(self) -> bool:
        """True if the difference is significant: ``adjusted_p`` is at most ``LEVEL``."""
        return self.adjusted_p <= LEVEL


@dataclass(frozen=True)
class Comparison:
    """Several systems on the same ``examples``, with significance tests of ``pairs`` by each metric that they can be
    compared by. ``corpus`` names the examples.

    ``intervals`` maps the name of a system or of one of its seeds to the 95 % interval of each of these metrics, by the
    metric's name. ``omitted`` maps each other metric to the reason why it is left out.
    """

    systems: Sequence[System]
    examples: Sequence[Example]
    corpus: str
    resampling: Resampling
    intervals: dict[str, dict[str, Interval]]
    pairs: Sequence[Pair]
    omitted: dict[str, str]

    @property
    def display_names(self) -> dict[str, str]:
        """Maps each system's name to its short name in tables: its paths without the folders that begin the paths of
        all systems.

        An ensemble has several paths, and so has a system of several seeds: "runs/a", "runs/b+runs/c" and
        "runs/d-1,runs/d-2" become "a", "b+c" and "d-1,2".
        """
        paths = {system.name: [_paths(seed) for seed in system.seeds or [system]] for system in self.systems}
        every = [path for seeds in paths.values() for seed in seeds for path in seed]
        shared = len(_beginning(path.split("/")[:-1] for path in every))

        def short(seed: Sequence[str]) -> str:
            return "+".join("/".join(path.split("/")[shared:]) for path in seed)

        return {name: _without_repetition([*map(short, seeds)]) for name, seeds in paths.items()}

    def verdict(self, pair: Pair) -> str:
        """A short text for tables: which system of the pair is better, or "not shown" if the difference is not
        significant.
        """
        return f"{self.display_names[pair.better]} is better" if pair.real else "not shown"

    @property
    def metrics(self) -> list[str]:
        """The names of the metrics that the systems are compared by."""
        return list(self.intervals[self.systems[0].name])

    @property
    def signatures(self) -> dict[str, str]:
        """The signature of each compared metric, by the metric's name."""
        return {each.name: each.metric.signature for each in self.systems[0].statistics if each.name in self.metrics}

    def record(self) -> dict[str, object]:
        """The comparison as values for JSON. The better system of a pair is None if the difference is not
        significant.
        """
        systems = [
            {"name": system.name, "metrics": system.scores, "intervals": self.intervals[system.name]}
            | (
                {"seeds": [{"name": seed.name, "metrics": seed.scores} for seed in system.seeds]}
                if system.seeds
                else {}
            )
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
        """The comparison as lines for the terminal."""
        scores = [[self.display_names[system.name], *self.score_cells(system)] for system in self.systems]
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
        """A table for the terminal: a head, and a line for each pair of systems and metric."""
        names = self.display_names
        head = ["", "", "difference", "95 %", "p bootstrap", "p randomised", "p Holm", f"real at {LEVEL}?"]
        rows = [
            [pair.metric, f"{names[pair.one]} − {names[pair.other]}", f"{pair.difference.value:+.2f}"]
            + [interval_text(pair.difference.interval, "+")]
            + [f"{p:.4f}" for p in (pair.difference.bootstrap_p, pair.difference.randomisation_p, pair.adjusted_p)]
            + [self.verdict(pair)]
            for pair in self.pairs
        ]
        return aligned([head, *rows], "<<>>>>><", indent=2)

    def score_cells(self, system: System) -> list[str]:
        """A system's score by each metric with its interval, and the lowest and the highest score of several seeds."""
        cells = []
        for name, interval in self.intervals[system.name].items():
            scores = [seed.scores[name] for seed in system.seeds]
            spread = f", seeds {min(scores):.2f} to {max(scores):.2f}" if scores else ""
            cells.append(f"{system.scores[name]:.2f} {interval_text(interval)}{spread}")
        return cells


def compare(
    systems: Sequence[System],
    examples: Sequence[Example],
    corpus: str,
    resampling: Resampling | None = None,
    baselines: Sequence[str] = (),
) -> Comparison:
    """Tests pairs of systems by each common metric, and returns the comparison with the interval of each score.

    ``examples`` are those that all systems were measured on. ``baselines`` are names of systems: each other system is
    tested against each of them, and the baselines against each other. Without ``baselines``, all pairs are tested.
    Raises UserError if there are fewer than two systems, if two have the same name or different numbers of seeds, if a
    baseline is none of them, or if no metric is left to compare by.
    """
    resampling = resampling or Resampling()
    names = [system.name for system in systems]
    check_names(names, baselines)
    check_seeds({system.name: max(1, len(system.seeds)) for system in systems})
    metrics, omitted = _comparable_metrics(systems)
    if not metrics:
        reasons = "; ".join(f"{name}: {why}" for name, why in omitted.items())
        raise UserError(f"no metric that {' and '.join(names)} can be compared by ({reasons}): choose with --metric")
    tested = _pairs(names, dict.fromkeys(baselines))
    by_system = {system.name: {each.name: each for each in system.statistics} for system in systems}
    pairs = [
        pair
        for metric in metrics
        for pair in _test(tested, {name: found[metric] for name, found in by_system.items()}, resampling)
    ]
    intervals = {
        each.name: {found.name: resampling.interval(found) for found in each.statistics if found.name in metrics}
        for system in systems
        for each in (system, *system.seeds)
    }
    return Comparison(systems, examples, corpus, resampling, intervals, pairs, omitted)


def _without_repetition(seeds: Sequence[str]) -> str:
    """The names of seeds, joined by commas. Only the first has the words that all begin with: "gru-1,2"."""
    words = [re.split(r"(?<=[-_./])", seed) for seed in seeds]
    shared = len("".join(_beginning(each[:-1] for each in words)))
    return ",".join([seeds[0], *(seed[shared:] for seed in seeds[1:])])


def _beginning(rows: Iterable[Sequence[str]]) -> list[str]:
    """The items that all rows begin with."""
    return [items[0] for items in takewhile(lambda items: len(set(items)) == 1, zip(*rows, strict=False))]


def _paths(system: System) -> list[str]:
    return [str(run) for run in system.runs] or [system.name]


def check_names(systems: Sequence[str], baselines: Sequence[str] = ()) -> None:
    """Raises UserError if there are fewer than two ``systems``, if two have the same name, or if a baseline is none of
    them.
    """
    if len(set(systems)) < len(systems) or len(systems) < 2:
        given = ", ".join(systems) or "nothing"
        raise UserError(f"{given}: name two or more different systems to compare")
    if unknown := [name for name in baselines if name not in systems]:
        raise UserError(f"the baseline {unknown[0]} is none of the systems; expected one of {', '.join(systems)}")


def check_seeds(counts: Mapping[str, int]) -> None:
    """Raises UserError if systems have different numbers of seeds. ``counts`` has the number for each system's name."""
    if len(set(counts.values())) > 1:
        counted = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise UserError(f"{counted}: give the same number of seeds of each system")


def _comparable_metrics(systems: Sequence[System]) -> tuple[list[str], dict[str, str]]:
    """The names of the metrics that all systems can be compared by, and for each other metric the reason against it."""
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


def _pairs(names: Sequence[str], baselines: Collection[str]) -> list[tuple[str, str]]:
    """The pairs to test, each with the baseline (or the later system) second."""
    if not baselines:
        return [*combinations(names, 2)]
    others = [name for name in names if name not in baselines]
    return [*((name, baseline) for name in others for baseline in baselines), *combinations(baselines, 2)]


def _test(
    pairs: Sequence[tuple[str, str]], statistics: Mapping[str, Statistics], resampling: Resampling
) -> Iterator[Pair]:
    """Yields the tests of pairs of systems by one metric; Holm's correction is over these pairs. ``statistics`` are the
    systems', by name.
    """
    found = [resampling.difference(statistics[one], statistics[other]) for one, other in pairs]
    adjusted = holm([difference.randomisation_p for difference in found])
    for (one, other), difference, p in zip(pairs, found, adjusted, strict=True):
        metric = statistics[one].metric
        better = one if (difference.value > 0) == metric.higher_is_better else other
        yield Pair(metric.name, one, other, difference, p, better)
