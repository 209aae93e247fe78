"""Scores by something that can be counted of an example: the length of its source, how rare its words are.

A model that holds a sentence in one vector gives way with its length; one that copies gives way with unseen words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean
from typing import Literal

from transduce.errors import UserError
from transduce.metrics.significance import Interval, Resampling
from transduce.metrics.statistics import Statistics
from transduce.types import Example

Unit = Literal["words", "characters"]


@dataclass(frozen=True)
class Bin:
    """The examples whose count is ``low`` to ``high``, ``mean`` of them on average; 95 % ``intervals`` of the scores
    where they were asked for."""

    low: int
    high: int
    mean: float
    examples: int
    scores: dict[str, float]
    intervals: dict[str, Interval] = field(default_factory=dict)


def binned(
    statistics: Sequence[Statistics],
    counts: Sequence[int],
    bins: int = 6,
    zero_apart: bool = False,
    resampling: Resampling | None = None,
) -> list[Bin]:
    """The scores of the examples with the lowest counts, the next, ..., in at most ``bins`` groups of about equal size.

    With ``zero_apart``, 0 has a group of its own, however small: seldom and never are different things.
    """
    if bins < 1:
        raise UserError(f"bins = {bins}: at least one group is needed")
    zero = zero_apart and 0 in counts
    rest = [count for count in counts if count or not zero]
    found = []
    for low, high in [(0, 0)] * zero + _bounds(rest, max(1, bins - zero)):
        rows = [row for row, count in enumerate(counts) if low <= count <= high]
        inside = [each.of(rows) for each in statistics]
        scores = {each.name: each.score for each in inside}
        intervals = {each.name: resampling.interval(each) for each in inside} if resampling else {}
        found.append(Bin(low, high, mean(counts[row] for row in rows), len(rows), scores, intervals))
    return found


def unit_of(examples: Sequence[Example]) -> Unit:
    """What sources are counted in: words, or characters where no source has two words. Of the raw text, they are the
    same for every model, whatever its units."""
    return "words" if any(len(example.source.split()) > 1 for example in examples) else "characters"


def units(source: str, unit: Unit) -> Sequence[str]:
    return source.split() if unit == "words" else source


def lengths(examples: Sequence[Example], unit: Unit) -> list[int]:
    """Words or characters of each source."""
    return [len(units(example.source, unit)) for example in examples]


def rarities(examples: Sequence[Example], unit: Unit, frequencies: Mapping[str, int]) -> list[int]:
    """How often the rarest word (or character) of each source stands in the training sources; 0 is an unseen one."""
    return [min((frequencies.get(each, 0) for each in units(example.source, unit)), default=0) for example in examples]


def _bounds(counts: Sequence[int], bins: int) -> list[tuple[int, int]]:
    """Lowest and highest of each group: a group is closed by the count that fills its share of what is left."""
    present = sorted(Counter(counts).items())
    bounds: list[tuple[int, int]] = []
    left, low, filled = len(counts), present[0][0] if present else 0, 0
    for place, (count, times) in enumerate(present):
        filled += times
        last = place == len(present) - 1
        if last or filled * (bins - len(bounds)) >= left:
            bounds.append((low, count))
            left, filled = left - filled, 0
            low = count if last else present[place + 1][0]
    return bounds
