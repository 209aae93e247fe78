"""Findings: how often a model behaves oddly in one way, with the cases, and whether two models differ in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import comb, nan, sqrt

from transduce.metrics.significance import Interval

Z = 1.959964  # of a normal distribution, for intervals of 95 %


@dataclass(frozen=True)
class Case:
    """One odd output. ``number`` is the example's place in the corpus, counted from 1.

    ``before`` is the output for the unchanged source; empty if the source is unchanged.
    """

    number: int
    source: str
    output: str
    before: str = ""


@dataclass(frozen=True)
class Finding:
    """How often one kind of odd behaviour was seen.

    ``name`` is one or two words. ``meaning`` says what a case is. ``cases`` are all that were found, among ``of``
    outputs. ``references`` is the number of cases among the reference texts, for comparison; None if it was not
    counted.
    """

    name: str
    meaning: str
    cases: tuple[Case, ...]
    of: int
    references: int | None = None

    @property
    def rate(self) -> float:
        """The share of outputs that are cases, from 0 to 1; NaN if there are no outputs."""
        return len(self.cases) / self.of if self.of else nan

    @property
    def interval(self) -> Interval:
        """The 95 % interval of the rate (Wilson, 1927). It is (0, 1) if there are no outputs."""
        if not self.of:
            return Interval(0.0, 1.0)
        centre = (self.rate + Z**2 / (2 * self.of)) / (1 + Z**2 / self.of)
        reach = Z / (1 + Z**2 / self.of) * sqrt(self.rate * (1 - self.rate) / self.of + Z**2 / (4 * self.of**2))
        return Interval(max(0.0, centre - reach), min(1.0, centre + reach))

    def record(self) -> dict[str, object]:
        """The finding as a JSON object, with all its cases."""
        return {
            "name": self.name,
            "meaning": self.meaning,
            "count": len(self.cases),
            "of": self.of,
            "references": self.references,
            "interval": list(self.interval),
            "cases": [vars(case) for case in self.cases],
        }


@dataclass(frozen=True)
class Examination:
    """All findings for one model, ``name``. ``examples`` is the number of examples. ``left_out`` maps the names of
    findings that cannot be had to the reasons.
    """

    name: str
    examples: int
    findings: Sequence[Finding]
    left_out: dict[str, str]

    def lines(self, shown: int = 1) -> list[str]:
        """A table for the terminal: a line for each finding, and under it at most ``shown`` of its cases."""
        made = [f"{self.name}: {self.examples:,} examples"]
        for finding in self.findings:
            low, high = finding.interval
            beside = "" if finding.references is None else f"; references {finding.references}"
            made.append(
                f"{finding.name:16} {len(finding.cases):6} of {finding.of:<6} {100 * finding.rate:5.1f} % "
                f"[{100 * low:.1f}, {100 * high:.1f}]  {finding.meaning}{beside}"
            )
            for case in finding.cases[:shown]:
                arrow = f"{case.before} → {case.output}" if case.before else case.output
                made.append(f"{'':16}   {case.number}: {case.source} ⇒ {arrow}")
        return made + [f"{name:16} left out: {why}" for name, why in self.left_out.items()]

    def record(self) -> dict[str, object]:
        """The examination as a JSON object."""
        found = [finding.record() for finding in self.findings]
        return {"name": self.name, "examples": self.examples, "findings": found, "left_out": self.left_out}


@dataclass(frozen=True)
class Difference:
    """Two models' findings of one name, on the same examples. ``only_one`` and ``only_other`` are the numbers of
    examples that are cases of one model alone.
    """

    one: Finding
    other: Finding

    @property
    def only_one(self) -> int:
        return len(_numbers(self.one) - _numbers(self.other))

    @property
    def only_other(self) -> int:
        return len(_numbers(self.other) - _numbers(self.one))

    @property
    def p(self) -> float:
        """The two-sided p-value of McNemar's exact test: how probable so uneven a split of the examples that are cases
        of one model alone would be, if both models were alike.
        """
        together, fewer = self.only_one + self.only_other, min(self.only_one, self.only_other)
        tail: float = sum(comb(together, k) for k in range(fewer + 1)) / 2.0**together
        return min(1.0, 2 * tail)

    def line(self) -> str:
        """A line for the terminal."""
        one, other = (f"{100 * each.rate:5.1f} %" for each in (self.one, self.other))
        alone = f"{self.only_one} only in the first, {self.only_other} only in the second"
        return f"{self.one.name:16} {one} {other}   {alone}, p {self.p:.3f}"


def differences(one: Examination, other: Examination) -> list[Difference]:
    """The differences of two models that were examined on the same examples: one for each finding that both have."""
    there = {finding.name: finding for finding in other.findings}
    return [Difference(finding, there[finding.name]) for finding in one.findings if finding.name in there]


def _numbers(finding: Finding) -> set[int]:
    return {case.number for case in finding.cases}


def found(
    name: str, meaning: str, judged: Iterable[tuple[Case, bool | None]], references: int | None = None
) -> Finding:
    """A finding from cases that were judged: True is odd, False is not, and None does not count at all."""
    counted = [(case, odd) for case, odd in judged if odd is not None]
    return Finding(name, meaning, tuple(case for case, odd in counted if odd), len(counted), references)
