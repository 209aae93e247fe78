"""Scores by the length of the source, and by how often its rarest word was seen in training."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from transduce.core.types import Example, Prediction
from transduce.data.corpora import DataError, Files
from transduce.data.frequencies import frequencies
from transduce.data.settings import Data, Units
from transduce.data.tokenizers.text import Characters
from transduce.metrics.base import metric
from transduce.metrics.bins import binned, lengths, rarities, unit_of
from transduce.metrics.statistics import Statistics, statistics


def exact(counts: Sequence[int]) -> list[Statistics]:
    """Statistics of predictions that are right for counts below 5."""
    predictions = [Prediction("right" if count < 5 else "wrong") for count in counts]
    return statistics([metric("exact")], predictions, [Example("", ("right",))] * len(counts))


@pytest.mark.parametrize("seed", range(20))
def test_every_example_is_in_one_bin_and_bins_are_about_equal(seed: int) -> None:
    draw = random.Random(seed)
    counts = [min(12, 1 + int(draw.expovariate(0.3))) for _ in range(draw.randint(1, 300))]
    bins = binned(exact(counts), counts, bins=5)
    assert len(bins) <= 5
    for each in bins:
        inside = [count for count in counts if each.low <= count <= each.high]
        assert len(inside) == each.examples
        assert each.mean == pytest.approx(sum(inside) / len(inside))
        assert {each.low, each.high} == {min(inside), max(inside)}
        assert each.scores["exact"] == pytest.approx(100 * sum(count < 5 for count in inside) / len(inside))
    assert sum(each.examples for each in bins) == len(counts)
    assert all(one.high < next.low for one, next in itertools.pairwise(bins))
    # without its highest count, a bin would have less than its share, or that count alone is more than a share
    for each in bins[:-1]:
        last = sum(count == each.high for count in counts)
        assert each.examples - last < len(counts) / 5 or each.low == each.high or last > len(counts) / 5


def test_equal_bins_where_counts_allow() -> None:
    counts = [*range(1, 13)] * 10
    assert [(each.low, each.high, each.examples) for each in binned(exact(counts), counts, bins=6)] == [
        (first, first + 1, 20) for first in range(1, 13, 2)
    ]


def test_zero_apart_has_a_bin_of_its_own() -> None:
    counts = [0, 0, *range(1, 9)]
    bins = binned(exact(counts), counts, bins=3, zero_apart=True)
    assert [(each.low, each.high, each.examples) for each in bins] == [(0, 0, 2), (1, 4, 4), (5, 8, 4)]
    assert [(each.low, each.high) for each in binned(exact([0, 0]), [0, 0], bins=3, zero_apart=True)] == [(0, 0)]
    assert [(each.low, each.high) for each in binned(exact([0, 1]), [0, 1], bins=1, zero_apart=True)] == [(0, 1)]


def test_a_bin_that_is_no_bin_is_refused() -> None:
    with pytest.raises(ValueError, match="bins = 0: at least one"):
        binned(exact([1]), [1], bins=0)


def test_single_words_are_counted_in_characters() -> None:
    examples = [Example(text) for text in ("abc", "", "abcdef")]
    assert (unit_of(examples), lengths(examples, unit_of(examples))) == ("characters", [3, 0, 6])
    examples.append(Example("two words"))
    assert (unit_of(examples), lengths(examples, unit_of(examples))) == ("words", [1, 0, 1, 2])


def test_words_and_sources_are_looked_up_in_the_training_set(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("the cat sat\nthe dog\n\nthe cat sat\n")
    (tmp_path / "t").write_text("x\ny\nz\nw\n")
    train = Files(source=str(tmp_path / "s"), target=(str(tmp_path / "t"), str(tmp_path / "t")))
    data = Data(Units(joint=Characters()), train=train)
    examples = [Example("the cat sat"), Example("the the dog"), Example("the bird"), Example("")]
    found = frequencies(data, tmp_path, [example.source for example in examples], str.split)
    assert found.words == {"the": 3, "cat": 2, "sat": 2, "dog": 1}
    assert found.seen == {"the cat sat"}
    assert rarities(examples, "words", found.words) == [2, 1, 0, 0]
    with pytest.raises(DataError, match="no training set to count words in"):
        frequencies(Data(Units(joint=Characters())), tmp_path, ["a"], str.split)
