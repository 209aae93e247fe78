from __future__ import annotations

import time
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.core.types import EOS
from transduce.data.batching import MOST, Batches, Batching, Place
from transduce.data.corpora import DataError
from transduce.data.pairs import Pairs, Ragged


def pairs_of(source_lengths, target_lengths) -> Pairs:
    sides = []
    for lengths in (source_lengths, target_lengths):
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        ids = np.arange(offsets[-1], dtype=np.uint16) % 1000 + 4
        ids[offsets[1:] - 1] = EOS
        sides.append(Ragged(ids, offsets))
    return Pairs(*sides)


def sentences(count: int, seed: int = 0) -> Pairs:
    """Pairs with lengths like translated sentences: a skewed distribution, and similar lengths on both sides."""
    random = np.random.default_rng(seed)
    source = 1 + random.gamma(4, 4, count).astype(int)
    return pairs_of(source, np.maximum(1, source + random.integers(-3, 4, count)))


some_pairs = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=60)
batchings = st.builds(Batching, st.integers(1, 80), st.none() | st.integers(1, 5), st.integers(1, 4))


@given(lengths=some_pairs, batching=batchings, seed=st.integers(0, 9))
def test_every_pair_once_an_epoch_and_within_the_budget(lengths, batching, seed):
    pairs = pairs_of(*zip(*lengths, strict=True))
    batches = Batches(pairs, batching, seed)
    for epoch in (0, 1):
        ids = batches.epoch(epoch)
        assert sorted(np.concatenate(ids)) == list(range(len(lengths)))
        for batch in ids:
            longest = max(max(lengths[row]) for row in batch)
            assert len(batch) == 1 or longest * len(batch) <= batching.tokens
            assert len(batch) <= (batching.sentences or len(batch))


@given(lengths=some_pairs, batching=batchings, world=st.integers(1, 4))
def test_ranks_share_the_batches_of_one_process(lengths, batching, world):
    pairs = pairs_of(*zip(*lengths, strict=True))
    alone = Batches(pairs, batching, 1).epoch(3)
    if len(alone) < world:
        with pytest.raises(DataError, match=f"{len(alone)} batches for {world} processes"):
            Batches(pairs, batching, 1, 0, world).epoch(3)
        return
    shares = [Batches(pairs, batching, 1, rank, world).epoch(3) for rank in range(world)]
    assert len({len(share) for share in shares}) == 1
    together = [batch for step in zip(*shares, strict=True) for batch in step]
    assert len(alone) - len(together) < world
    assert all(np.array_equal(one, other) for one, other in zip(together, alone, strict=False))


def test_batches_are_as_full_as_the_next_pair_allows():
    pairs = sentences(2000)
    batching = Batching(tokens=500, pool=10**6)  # one pool: the cut is one greedy pass over the sorted pairs
    ids = sorted(Batches(pairs, batching, 0).epoch(0), key=lambda rows: pairs.target_lengths[rows].max())
    longest = np.maximum(pairs.source_lengths, pairs.target_lengths)
    order = sorted(range(2000), key=lambda row: (pairs.target_lengths[row], pairs.source_lengths[row]))
    expected: list[list[int]] = [[]]
    for row in order:  # brute force
        if (len(expected[-1]) + 1) * max(longest[[*expected[-1], row]]) > 500:
            expected.append([])
        expected[-1].append(row)
    shape = [(len(rows), pairs.target_lengths[rows].max()) for rows in map(np.array, expected)]
    assert sorted(shape) == sorted((len(rows), pairs.target_lengths[rows].max()) for rows in ids)


@given(lengths=some_pairs, batching=batchings, pool=st.integers(1, 9))
def test_no_batch_has_pairs_of_two_pools(lengths, batching, pool):
    """The lengths grow within a pool. A batch from the end of one pool and the beginning of the next would be mostly
    padding.
    """
    source_N, target_N = np.array(lengths, np.int32).T
    bounds = Batches(pairs_of(source_N, target_N), batching, 0)._cut(source_N, target_N, pool)
    assert [begin for begin, _ in bounds] == [0, *(end for _, end in bounds[:-1])]
    assert all(begin // pool == (end - 1) // pool for begin, end in bounds)


def test_order_is_a_function_of_seed_and_epoch_alone():
    pairs = sentences(500)

    def order(seed: int, epoch: int) -> list[list[int]]:
        return [rows.tolist() for rows in Batches(pairs, Batching(tokens=300), seed).epoch(epoch)]

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(2, 0)
    assert order(1, 0) != order(1, 1)
    assert order(1, 2) != order(2, 1)


def test_pairs_are_batched_with_others_each_epoch():
    batches = Batches(sentences(500), Batching(tokens=300, pool=3), 1)
    companies = [{row: frozenset(rows.tolist()) for rows in batches.epoch(epoch) for row in rows} for epoch in (0, 1)]
    assert sum(companies[0][row] == companies[1][row] for row in range(500)) < 25


@pytest.mark.parametrize("taken", [0, 1, 7, 40])
def test_from_any_place_the_same_batches_follow(taken):
    batches = Batches(sentences(100), Batching(tokens=200), 5)
    assert len(batches.epoch(0)) < 40
    steps = list(islice(batches.iterate(Place()), taken + 5))
    place = steps[taken - 1][1] if taken else Place()
    resumed = islice(Batches(sentences(100), Batching(tokens=200), 5).iterate(place), 5)
    for (batch, after), (again, after_again) in zip(steps[taken:], resumed, strict=True):
        assert after == after_again
        assert batch.ids.equal(again.ids)
        assert batch.target.values.equal(again.target.values)


def test_places_beyond_the_epoch_tell_that_something_changed():
    with pytest.raises(DataError, match="batch 99 of an epoch of"):
        next(Batches(sentences(10), Batching(), 0).iterate(Place(0, 99)))


def test_little_is_padding_and_batches_are_full():
    pairs, batching = sentences(20_000), Batching()
    ids = Batches(pairs, batching, 0).epoch(0)
    padded = sum(len(rows) * (pairs.source_lengths[rows].max() + pairs.target_lengths[rows].max()) for rows in ids)
    real = pairs.source_lengths.sum() + pairs.target_lengths.sum()
    longest = np.maximum(pairs.source_lengths, pairs.target_lengths)
    filled = sum(len(rows) * longest[rows].max() for rows in ids)
    assert 1 - real / padded < 0.10
    assert filled / (len(ids) * batching.tokens) > 0.96


def test_an_epoch_of_a_hundred_thousand_pairs_is_quickly_made():
    batches = Batches(sentences(120_000), Batching(), 0)
    begin = time.perf_counter()
    batches.epoch(0)
    assert time.perf_counter() - begin < 0.3


def test_settings_that_cannot_be_are_refused():
    for name in ("tokens", "sentences", "pool"):
        with pytest.raises(DataError, match=rf"batching\.{name} = 0: expected at least 1"):
            Batching(**{name: 0})
        with pytest.raises(DataError, match=rf"batching\.{name} = {10**20}: expected .* at most"):
            Batching(**{name: 10**20})
    assert len(Batches(sentences(10), Batching(MOST, MOST, MOST), 0).epoch(0)) == 1
    with pytest.raises(DataError, match="rank 2 of 2"):
        Batches(sentences(10), Batching(), 0, 2, 2)
