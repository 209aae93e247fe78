"""What pictures and the page of a sweep draw: scores by the length of the source, and short names of variants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from transduce.wings.lab.sweeps.grid import shared
from transduce.wings.lab.sweeps.results import ResultRow


def by_length(row: ResultRow, name: str) -> list[tuple[float, float]]:
    """For each group of sources, shortest first: the mean length and the mean score over the variant's seeds."""
    points: dict[float, list[float]] = defaultdict(list)
    for found in row.cells.values():
        for each in found.lengths:
            if name in each.scores:
                points[each.mean].append(each.scores[name])
    return [(length, fmean(scores)) for length, scores in sorted(points.items())]


def short_names(names: Sequence[str]) -> list[str]:
    """The names of variants without their common prefix."""
    return [name.removeprefix(f"{shared(names)}-") for name in names]
