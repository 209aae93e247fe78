"""The results of one system: scores with their intervals, results by groups of sources, errors, calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

from transduce.core.types import Example
from transduce.evaluation.groups import Grouping
from transduce.evaluation.systems import System
from transduce.metrics.calibration import Calibration
from transduce.metrics.confusions import LabelBreakdown
from transduce.metrics.error_breakdown import ErrorBreakdown
from transduce.metrics.significance import Interval, Resampling
from transduce.metrics.units import columns, padded


@dataclass(frozen=True)
class SystemResults:
    """A system's results on the examples ``examples`` of ``corpus`` (the name of a split, or a file).

    ``groupings`` has one item per property of the sources, ``errors`` one per error rate, and ``labels`` one per unit
    of label metrics. These and ``calibration`` are left out of reports if they are empty.
    """

    system: System
    examples: Sequence[Example]
    corpus: str
    resampling: Resampling
    groupings: Sequence[Grouping] = ()
    errors: Sequence[ErrorBreakdown] = ()
    calibration: Calibration | None = None
    labels: Sequence[LabelBreakdown] = ()

    @property
    def signatures(self) -> dict[str, str]:
        """Each metric's signature, by the metric's name."""
        return {each.name: each.metric.signature for each in self.system.statistics}

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """The 95 % confidence interval of each metric's score, by name."""
        return {each.name: self.resampling.interval(each) for each in self.system.statistics}

    def record(self) -> dict[str, object]:
        """The results as values for JSON."""
        found: dict[str, object] = {
            "run": self.system.name,
            "examples": len(self.examples),
            "metrics": self.system.scores,
            "intervals": self.intervals,
            "signatures": self.signatures,
            "resampling": self.resampling.signature,
        }
        if self.system.concerns:
            found["concerns"] = list(self.system.concerns)
        if self.groupings:
            found["groups"] = {each.key: each.record() for each in self.groupings}
        if self.errors:
            found["errors"] = {each.metric: each.record() for each in self.errors}
        if self.labels:
            found["labels"] = {each.unit: each.record() for each in self.labels}
        if self.calibration is not None:
            found["calibration"] = asdict(self.calibration)
        return found | {"seconds": self.system.seconds}

    def lines(self) -> list[str]:
        """The results as lines for the terminal."""
        took = "" if self.system.seconds is None else f", found in {self.system.seconds:.1f} s"
        found = [f"{self.system.name}, {self.corpus}: {len(self.examples):,} examples{took}", *self._score_lines()]
        for grouping in self.groupings:
            found += ["", *_group_lines(grouping)]
        for errors in self.errors:
            found += ["", *errors.lines()]
        for labels in self.labels:
            found += ["", *_label_lines(labels)]
        if self.calibration is not None:
            found += ["", *_calibration_lines(self.calibration)]
        return found

    def _score_lines(self) -> list[str]:
        scores, signatures = self.system.scores, self.signatures
        rows = [
            [name, f"{scores[name]:.2f}", interval_text(interval), signatures[name]]
            for name, interval in self.intervals.items()
        ]
        return [*aligned(rows, "><<<", gap=2, indent=2), f"  95 % intervals: {self.resampling.signature}"]


def interval_text(interval: Interval, sign: str = "") -> str:
    """An interval as text with two decimals: ``[3.10, 4.20]``. ``sign="+"`` writes the plus of positive numbers too."""
    return f"[{interval.low:{sign}.2f}, {interval.high:{sign}.2f}]"


def _group_lines(grouping: Grouping) -> list[str]:
    names = list(grouping.bins[0].scores)
    rows = [
        [label, f"{each.examples:,}", *(f"{each.scores[name]:.2f}" for name in names)]
        for label, each in zip(grouping.labels, grouping.bins, strict=True)
    ]
    return [grouping.title, *aligned([["", "examples", *names], *rows], indent=2)]


def _label_lines(found: LabelBreakdown) -> list[str]:
    matrix = found.matrix()
    table = aligned(found.rows(), "<>", indent=2)
    return [*table, "", *aligned(matrix, "<>", indent=2)] if matrix else table


def _calibration_lines(found: Calibration) -> list[str]:
    head = (
        f"calibration: on average {100 * found.confidence:.1f} % sure and {100 * found.accuracy:.1f} % right over "
        f"{found.tokens:,} tokens, expected calibration error {100 * found.error:.2f} %  {found.signature}"
    )
    rows = [
        [
            f"{100 * each.low:.0f}–{100 * each.high:.0f} %",
            f"{each.tokens:,}",
            f"{100 * each.confidence:.1f}",
            f"{100 * each.accuracy:.1f}",
        ]
        for each in found.bins
    ]
    return [head, *aligned([["", "tokens", "sure", "right"], *rows], indent=2)]


def aligned(rows: Sequence[Sequence[str]], align: str = ">", gap: int = 2, indent: int = 0) -> list[str]:
    """A table as lines, one for each row. All rows have equally many cells.

    ``align`` has < (left) or > (right) for each column; its last sign is for all further columns. Columns are ``gap``
    spaces apart, and lines are indented by ``indent`` spaces.
    """
    widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
    sides = align + align[-1] * (len(widths) - len(align))
    lines = (
        (" " * gap).join(padded(cell, width, side) for cell, width, side in zip(row, widths, sides, strict=True))
        for row in rows
    )
    return [" " * indent + line.rstrip() for line in lines]
