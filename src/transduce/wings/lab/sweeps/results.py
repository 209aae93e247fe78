"""The results of a sweep so far: one row per variant, with all its finished seeds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.metrics.base import metric
from transduce.wings.lab.sweeps.grid import SweepCell, Variant
from transduce.wings.lab.sweeps.measurement import Measurement
from transduce.wings.lab.sweeps.question import Question

LOSS = "loss"  # what chooses a checkpoint if training.validation names no metric


@dataclass(frozen=True)
class Spread:
    """The values of one number over the finished seeds of a variant, such as a score. ``mean``, ``low`` and ``high``
    raise ValueError if there is no value.
    """

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def low(self) -> float:
        return min(self.values)

    @property
    def high(self) -> float:
        return max(self.values)


@dataclass(frozen=True)
class ResultRow:
    """One row of a sweep's results: a variant, and the measurement of each finished cell, by its seed, lowest seed
    first.
    """

    variant: Variant
    cells: dict[int, Measurement]

    def spread(self, of: Callable[[Measurement], float]) -> Spread:
        """The value of ``of`` for each finished cell."""
        return Spread(tuple(of(measurement) for measurement in self.cells.values()))

    def score(self, name: str) -> Spread:
        """The metric ``name`` of the cells that have it. Recipes may differ in their metrics, so the spread can be
        empty.
        """
        return Spread(tuple(each.metrics[name] for each in self.cells.values() if name in each.metrics))


@dataclass(frozen=True)
class SweepResults:
    """The results of a sweep's ``question`` so far; ``out`` is the sweep's folder.

    ``rows`` are the variants with finished cells. They are sorted by the mean over seeds of the score ``ranked_by``,
    best first, or by name if that is None. ``unfinished`` are the cells without a measurement on the question's split.
    """

    question: Question
    out: Path
    rows: tuple[ResultRow, ...]
    unfinished: tuple[SweepCell, ...]

    @property
    def measurements(self) -> list[Measurement]:
        """The measurements of all finished cells, in the order of the rows."""
        return [measurement for row in self.rows for measurement in row.cells.values()]

    @property
    def metrics(self) -> list[str]:
        """The names of all metrics of finished cells, each once, in the order of the rows. The picture shows the first
        one.
        """
        return list(dict.fromkeys(name for each in self.measurements for name in each.metrics))

    @property
    def ranked_by(self) -> str | None:
        """The name of the validation score that sorts the rows, or None if rows are sorted by the names of the
        variants.

        For a cell measured on valid it is the cell's first metric; for other cells, the score that chose the best
        checkpoint in training. It is None if the cells do not agree.
        """
        return _ranking_metric(self.measurements)

    @property
    def unfinished_folders(self) -> dict[str, Path]:
        """The run directory of each unfinished cell (a variant with a seed), by the cell's name. It may be missing."""
        return {cell.name: self.out / "cells" / cell.name for cell in self.unfinished}


def collect(question: Question, out: Path) -> SweepResults:
    """Reads the measurements of all cells of a question from the sweep's folder ``out``, and ranks the variants."""
    cells: dict[str, dict[int, Measurement]] = {}
    variants: dict[str, Variant] = {}
    unfinished = []
    for cell in question.cells():
        variants[cell.variant.name] = cell.variant
        found = Measurement.read(out / "cells" / cell.name, question.split)
        if found is None:
            unfinished.append(cell)
        else:
            cells.setdefault(cell.variant.name, {})[cell.seed] = found
    rows = [ResultRow(variants[name], dict(sorted(seeds.items()))) for name, seeds in cells.items()]
    return SweepResults(question, out, tuple(_ranked(rows)), tuple(unfinished))


def chosen_score(found: Measurement, name: str) -> float:
    """A cell's score ``name`` on the validation data. If the sweep measured on valid, it is the sweep's own
    measurement; otherwise it is the score of the best checkpoint from training.
    """
    return found.metrics[name] if found.split == "valid" else found.validation[name]


def _ranking_metric(found: Sequence[Measurement]) -> str | None:
    """The name of the first validation score of the cells, if it is the same for all of them; otherwise None."""
    names = {next(iter(each.metrics if each.split == "valid" else each.validation), None) for each in found}
    return names.pop() if len(names) == 1 else None


def _ranked(rows: Sequence[ResultRow]) -> list[ResultRow]:
    """The rows in the order that ``SweepResults`` describes."""
    name = _ranking_metric([found for row in rows for found in row.cells.values()])
    if name is None:
        return sorted(rows, key=lambda row: row.variant.name)
    sign = -1 if name != LOSS and metric(name).higher_is_better else 1
    return sorted(rows, key=lambda row: sign * row.spread(lambda found: chosen_score(found, name)).mean)
