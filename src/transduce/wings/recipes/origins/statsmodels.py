"""Well-known series, from the data files of an installed package."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from transduce.core.registry import alternatives
from transduce.data.base import Split
from transduce.data.corpora import DataError, Splits
from transduce.data.origins import package, tsv_splits
from transduce.wings.recipes.origins.windows import Windows


@dataclass(frozen=True)
class Statsmodels:
    """Windows on a ``dataset`` of the PyPI package ``statsmodels``. None of its code is run.

    "co2": carbon dioxide at Mauna Loa, 1958 to 2001, monthly means of weekly measurements; a month without measurements
    is interpolated linearly. "elnino": the sea temperature off Peru, monthly, 1950 to 2010. "sunspots": one number per
    year, 1700 to 2008. ``prepare`` raises DataError for another dataset, or if the package is not installed.
    """

    dataset: str
    windows: Windows

    def prepare(self, folder: Path) -> Splits:
        if self.dataset not in DATASETS:
            raise DataError(f"no series {self.dataset!r}{alternatives(self.dataset, DATASETS)}")
        distribution = package("statsmodels", extra="series")

        def lines() -> dict[Split, list[str]]:
            path = Path(str(distribution.locate_file(f"statsmodels/datasets/{self.dataset}/{self.dataset}.csv")))
            steps = DATASETS[self.dataset](path)
            return self.windows.lines(steps, steps, self.dataset)

        return tsv_splits(folder / distribution.version, lines)


def co2(path: Path) -> list[str]:
    """The monthly means of the weekly file, as text with two decimals, one for each month from the first to the last
    that has a measurement.
    """
    weeks = [(date[:6], float(value)) for date, value in _rows(path) if value]
    months = {month: [value for _, value in group] for month, group in groupby(weeks, itemgetter(0))}
    means = {_months(month): sum(values) / len(values) for month, values in months.items()}
    known = sorted(means)
    return [f"{_between(means, known, month):.2f}" for month in range(known[0], known[-1] + 1)]


def elnino(path: Path) -> list[str]:
    """The monthly numbers of a file with a row per year, as text in the order of time."""
    return [value.strip() for _, *year in _rows(path) for value in year]


def sunspots(path: Path) -> list[str]:
    """The yearly numbers of the file, as text in the order of time."""
    return [value.strip() for _, value in _rows(path)]


DATASETS: dict[str, Callable[[Path], list[str]]] = {"co2": co2, "elnino": elnino, "sunspots": sunspots}
"""For each data file, a function that returns its series step by step."""


def _rows(path: Path) -> Iterator[list[str]]:
    """The rows below the header line."""
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.reader(file)
        next(reader)
        yield from reader


def _months(month: str) -> int:
    """ "195803" as the number of months from January of the year 0 to this month."""
    return 12 * int(month[:4]) + int(month[4:]) - 1


def _between(means: dict[int, float], known: Sequence[int], month: int) -> float:
    """The month's mean, or the linear interpolation between the nearest known months."""
    if month in means:
        return means[month]
    before = max(each for each in known if each < month)
    after = min(each for each in known if each > month)
    return means[before] + (means[after] - means[before]) * (month - before) / (after - before)
