"""Scores of groups of examples, by the length of the source or by the rarity of its words.

A model that holds a sentence in one vector gets worse with its length. A model that copies gets worse with unseen
words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean
from typing import Literal

from transduce.core.errors import UserError
from transduce.core.types import Example
from transduce.metrics.significance import Interval, Resampling
from transduce.metrics.statistics import Statistics

Unit = Literal["words", "characters"]


@dataclass(frozen=True)
class Bin:
    """A group of examples: those with a count from ``low`` to ``high``, both included. ``mean`` is their mean
    count.

    ``examples`` is how many there are. ``scores`` are by metric name; so are ``intervals``, the 95 % intervals of the
    scores, which are empty unless requested.
    """

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
    """Divides the examples into groups of about equal size by their ``counts``, and returns the scores of each group,
    lowest counts first. ``counts`` has one number per example, such as the length of its source.

    There are at most ``bins`` groups; examples with equal counts share one. ``zero_apart`` puts the count 0 into a
    group of its own, even a small one, because rare and unseen words are different cases. It has no effect if ``bins``
    is 1. If ``resampling`` is given, scores have intervals. Raises UserError for ``bins`` below 1.
    """
    if bins < 1:
        raise UserError(f"bins = {bins}: at least one group is needed")
    zero = zero_apart and bins > 1 and 0 in counts
    rest = [count for count in counts if count or not zero]
    found = []
    for low, high in [(0, 0)] * zero + _bounds(rest, bins - zero):
        rows = [row for row, count in enumerate(counts) if low <= count <= high]
        inside = [each.of(rows) for each in statistics]
        scores = {each.name: each.score for each in inside}
        intervals = {each.name: resampling.interval(each) for each in inside} if resampling else {}
        found.append(Bin(low, high, mean(counts[row] for row in rows), len(rows), scores, intervals))
    return found


def unit_of(examples: Sequence[Example]) -> Unit:
    """The unit for counting sources: words between white space, or characters if no source has two words.

    The raw text is counted and not its tokens, so the unit is the same for all models.
    """
    return "words" if any(len(example.source.split()) > 1 for example in examples) else "characters"


def units(source: str, unit: Unit) -> Sequence[str]:
    """The words of a source, between white space, or its characters: the string itself."""
    return source.split() if unit == "words" else source


def lengths(examples: Sequence[Example], unit: Unit) -> list[int]:
    """The number of words or characters of each source, in order."""
    return [len(units(example.source, unit)) for example in examples]


def rarities(examples: Sequence[Example], unit: Unit, frequencies: Mapping[str, int]) -> list[int]:
    """For each source, how often its rarest word (or character) occurs in training. 0 means that one of its words is
    unseen, or that the source is empty. ``frequencies`` are the counts in training; a word that they lack has 0.
    """
    return [min((frequencies.get(each, 0) for each in units(example.source, unit)), default=0) for example in examples]


def _bounds(counts: Sequence[int], bins: int) -> list[tuple[int, int]]:
    """Cuts counts into ``bins`` groups of about equal size, or fewer. Returns the lowest and the highest count of each
    group, both included.

    A group ends as soon as it has its equal share of the counts that are not yet in a group.
    """
    present = sorted(Counter(counts).items())
    bounds: list[tuple[int, int]] = []
    left, first, filled = len(counts), 0, 0
    for place, (count, times) in enumerate(present):
        filled += times
        if place == len(present) - 1 or filled * (bins - len(bounds)) >= left:
            bounds.append((present[first][0], count))
            left, first, filled = left - filled, place + 1, 0
    return bounds
