"""Scores by the length of the source."""

from __future__ import annotations

import itertools
import random

import pytest

from transduce.metrics.base import metric
from transduce.metrics.lengths import by_length
from transduce.types import Example, Prediction


def corpus(lengths: list[int]) -> tuple[list[Prediction], list[Example]]:
    """Right are the outputs for short sources."""
    examples = [Example(" ".join("w" * length), ("right",)) for length in lengths]
    return [Prediction("right" if length < 5 else "wrong") for length in lengths], examples


@pytest.mark.parametrize("seed", range(20))
def test_every_example_is_in_one_bin_and_bins_are_about_equal(seed: int) -> None:
    draw = random.Random(seed)
    lengths = [min(12, 1 + int(draw.expovariate(0.3))) for _ in range(draw.randint(1, 300))]
    unit, bins = by_length([metric("exact")], *corpus(lengths), bins=5)
    assert unit == ("words" if max(lengths) > 1 else "characters")
    assert len(bins) <= 5
    for each in bins:
        inside = [length for length in lengths if each.shortest <= length <= each.longest]
        assert len(inside) == each.examples
        assert each.mean == pytest.approx(sum(inside) / len(inside))
        assert {each.shortest, each.longest} == {min(inside), max(inside)}
        assert each.scores["exact"] == pytest.approx(100 * sum(length < 5 for length in inside) / len(inside))
    assert sum(each.examples for each in bins) == len(lengths)
    assert all(one.longest < next.shortest for one, next in itertools.pairwise(bins))
    # no length could be taken off the end of a bin and leave it its share
    for each in bins[:-1]:
        last = sum(length == each.longest for length in lengths)
        assert each.examples - last < len(lengths) / 5 or each.shortest == each.longest or last > len(lengths) / 5


def test_equal_bins_where_lengths_allow() -> None:
    _, bins = by_length([metric("exact")], *corpus([*range(1, 13)] * 10), bins=6)
    assert [(each.shortest, each.longest, each.examples) for each in bins] == [
        (first, first + 1, 20) for first in range(1, 13, 2)
    ]


def test_single_words_are_counted_in_characters() -> None:
    examples = [Example(text, ("x",)) for text in ("abc", "", "abcdef")]
    unit, bins = by_length([metric("exact")], [Prediction("x")] * 3, examples, bins=9)
    assert (unit, [each.longest for each in bins]) == ("characters", [0, 3, 6])
