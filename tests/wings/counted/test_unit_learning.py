"""Cosegmentation of pairs against lists of all ways to cut them: expected counts, the best way, pairs that cannot be
cut."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.core.types import EOS, PAD
from transduce.data.pairs import Pairs, Ragged
from transduce.wings.counted.unit_learning import Cosegmentation

Side = tuple[int, ...]
Pair = tuple[Side, Side]
Unit = tuple[int, ...]  # two source tokens and two target tokens, padded with PAD
Way = tuple[Unit, ...]

CORPUS: list[Pair] = [
    ((4, 5, 6), (7, 8, 9)),
    ((4,), (7,)),
    ((4,), ()),
    ((5, 4), (8, 7)),
    ((5, 4), ()),
    ((4, 5), (7, 8, 9, 7)),
    ((6, 6, 4), (9, 9, 7)),
    ((4, 5, 6), (7, 8, 9)),
    ((4, 4, 5, 6), (7, 8)),
    ((6, 5, 4), (9, 8, 7, 7, 7)),
    ((5,), (8, 9)),
]

# every pair can be cut: at most two target tokens for each source token
cuttable = st.lists(st.integers(4, 6), min_size=1, max_size=4).flatmap(
    lambda source: st.tuples(st.just(tuple(source)), st.lists(st.integers(4, 6), max_size=2 * len(source)).map(tuple))
)


def pairs_of(corpus: Sequence[Pair]) -> Pairs:
    return Pairs(*(ragged([pair[side] for pair in corpus]) for side in range(2)))


def ragged(rows: Sequence[Side]) -> Ragged:
    ids = [token for row in rows for token in (*row, EOS)]
    offsets = np.cumsum([0, *(len(row) + 1 for row in rows)])
    return Ragged(np.array(ids, np.uint16), offsets.astype(np.int64))


def ways_of(source: Side, target: Side) -> Iterator[Way]:
    if not source and not target:
        yield ()
    for a, b in [(1, 0), (1, 1), (1, 2), (2, 1)]:
        if a <= len(source) and b <= len(target):
            unit = (*(*source[:a], PAD)[:2], *(*target[:b], PAD, PAD)[:2])
            for rest in ways_of(source[a:], target[b:]):
                yield (unit, *rest)


def plural(unit: Unit) -> bool:
    return unit[1] != PAD or unit[3] != PAD


def spelled(way: Way) -> Pair:
    source, target = (tuple(token for unit in way for token in unit[side] if token) for side in (slice(2), slice(2, 4)))
    return source, target


def score(way: Way, log_prob: dict[Unit, float], plural_factor: float = 1.0) -> float:
    return sum(log_prob[unit] * (plural_factor if plural(unit) else 1.0) for unit in way)


def table(ways: Cosegmentation) -> dict[Unit, float]:
    assert ways.units.shape == (len(ways.log_prob), 4)
    return dict(zip(map(tuple, ways.units.tolist()), ways.log_prob.tolist(), strict=True))


def alike(corpus: Sequence[Pair]) -> dict[Unit, float]:
    """Equal log-probabilities for the units in all ways to cut the pairs."""
    units = sorted({unit for pair in corpus for way in ways_of(*pair) for unit in way})
    return dict.fromkeys(units, -math.log(max(len(units), 1)))


def reestimated(corpus: Sequence[Pair], log_prob: dict[Unit, float]) -> tuple[float, dict[Unit, float]]:
    total, counts = 0.0, dict.fromkeys(log_prob, 0.0)
    for pair in corpus:
        weights = {way: math.exp(score(way, log_prob)) for way in ways_of(*pair)}
        whole = sum(weights.values())
        total += math.log(whole)
        for way, weight in weights.items():
            for unit in way:
                counts[unit] += weight / whole
    every = sum(counts.values())
    return total, {unit: math.log(count / every) for unit, count in counts.items()}


def draw(ways: Cosegmentation, seed: int) -> None:
    """Draws random probabilities of units, so that hardly any two ways are equally good."""
    generator = torch.Generator().manual_seed(seed)
    ways.log_prob = (2 * torch.randn(len(ways.units), generator=generator, dtype=torch.float64)).log_softmax(0)


def check_passes(corpus: Sequence[Pair], ways: Cosegmentation, passes: int) -> None:
    expected = table(ways)
    for _ in range(passes):
        total, expected = reestimated(corpus, expected)
        assert ways.reestimate() == pytest.approx(total, rel=1e-10, abs=1e-12)
        assert table(ways) == pytest.approx(expected, rel=1e-8, abs=1e-10)


def best_ways(ways: Cosegmentation) -> list[Way]:
    return [tuple(tuple(unit) for unit in ways.units[row].tolist()) for row in ways.best()]


def check_best(corpus: Sequence[Pair], ways: Cosegmentation) -> None:
    found, log_prob = best_ways(ways), table(ways)
    assert Counter(map(spelled, found)) == Counter(corpus)
    for way in found:
        greatest = max(score(other, log_prob, 2.0) for other in ways_of(*spelled(way)))
        assert score(way, log_prob, 2.0) == pytest.approx(greatest, rel=1e-12)


# ------------------------------------------------------------------ expectation maximisation


def test_a_pair_cut_by_hand() -> None:
    """The pair of a b and x has three ways: a is silent, b is silent, or all is one unit. The five units start with
    equal probabilities.
    """
    ways = Cosegmentation(pairs_of([((4, 5), (6,))]))
    a, b, ax, bx, abx = (4, 0, 0, 0), (5, 0, 0, 0), (4, 0, 6, 0), (5, 0, 6, 0), (4, 5, 6, 0)
    assert list(table(ways)) == [a, ax, abx, b, bx]
    assert ways.reestimate() == pytest.approx(math.log(1 / 5 + 2 / 25))
    shares = {a: 1 / 7, ax: 1 / 7, abx: 5 / 7, b: 1 / 7, bx: 1 / 7}
    assert table(ways) == pytest.approx({unit: math.log(share / (9 / 7)) for unit, share in shares.items()})


def test_units_are_those_of_any_way_and_all_alike_at_first() -> None:
    ways = Cosegmentation(pairs_of(CORPUS))
    assert list(table(ways)) == list(alike(CORPUS))
    assert table(ways) == pytest.approx(alike(CORPUS))


def test_a_unit_that_is_on_no_whole_way_is_none() -> None:
    """If a target has twice as many tokens as its source, every unit has two target tokens."""
    ways = Cosegmentation(pairs_of([((4, 5, 6), (7, 8, 9, 7, 8, 9))]))
    assert list(table(ways)) == [(4, 0, 7, 8), (5, 0, 9, 7), (6, 0, 8, 9)]


def test_passes_count_all_ways_as_often_as_they_are_probable() -> None:
    check_passes(CORPUS, Cosegmentation(pairs_of(CORPUS)), 5)


def test_a_pass_may_begin_anywhere() -> None:
    ways = Cosegmentation(pairs_of(CORPUS))
    draw(ways, 0)
    check_passes(CORPUS, ways, 2)


@pytest.mark.parametrize("S", range(1, 5))
def test_pairs_of_every_shape(S: int) -> None:
    """The targets are from empty to the widest possible, each pair alone and all pairs together."""
    shapes = [(tuple(range(4, 4 + S)), tuple(4 + t % 3 for t in range(T))) for T in range(2 * S + 1)]
    for corpus in [shapes, *([pair] for pair in shapes)]:
        ways = Cosegmentation(pairs_of(corpus))
        assert table(ways) == pytest.approx(alike(corpus))
        check_passes(corpus, ways, 2)
        draw(ways, S)
        check_best(corpus, ways)


def test_pairs_never_become_less_probable() -> None:
    ways = Cosegmentation(pairs_of(CORPUS))
    totals = [ways.reestimate() for _ in range(15)]
    assert all(after >= before - 1e-9 for before, after in itertools.pairwise(totals))
    assert totals[1] > totals[0] + 1
    assert totals[-1] > totals[1] + 1


# ------------------------------------------------------------------ the best way


@pytest.mark.parametrize("passes", [0, 1, 6])
def test_the_best_way_is_the_best_of_all(passes: int) -> None:
    ways = Cosegmentation(pairs_of(CORPUS))
    for _ in range(passes):
        ways.reestimate()
    check_best(CORPUS, ways)


@pytest.mark.parametrize("seed", range(4))
def test_the_best_way_by_any_probabilities(seed: int) -> None:
    ways = Cosegmentation(pairs_of(CORPUS))
    draw(ways, seed)
    check_best(CORPUS, ways)


def test_units_of_two_tokens_are_dearer_than_probable() -> None:
    """A unit of two source tokens counts its log-probability twice. It is the best way only if that is better than two
    units.
    """
    ways = Cosegmentation(pairs_of([((4, 5), (6,))]))
    a_bx, ax_b, abx = [((4, 0, 0, 0), (5, 0, 6, 0)), ((4, 0, 6, 0), (5, 0, 0, 0)), ((4, 5, 6, 0),)]
    assert {*ways_of((4, 5), (6,))} == {a_bx, ax_b, abx}

    def best(log_probs: dict[Unit, float]) -> Way:
        ways.log_prob = torch.tensor([log_probs[unit] for unit in table(ways)], dtype=torch.float64)
        (way,) = best_ways(ways)
        return way

    low = dict.fromkeys(table(ways), -2.0)
    assert best(low | {(4, 5, 6, 0): -1.9}) == abx
    assert best(low | {(4, 5, 6, 0): -1.99, (5, 0, 6, 0): -1.9}) == a_bx
    assert best(low | {(4, 5, 6, 0): -1.99, (4, 0, 6, 0): -1.9}) == ax_b


# ------------------------------------------------------------------ what cannot be cut, and how much can


UNCUT: list[Pair] = [((4,), (7, 8, 9)), ((20, 20), (21,) * 5), ((), (7,)), ((), ())]


def test_what_cannot_be_cut_is_told_and_left_out() -> None:
    places = (0, 3, 8, 14)
    corpus = [*CORPUS]
    for place, pair in zip(places, UNCUT, strict=True):
        corpus.insert(place, pair)
    ways, without = Cosegmentation(pairs_of(corpus)), Cosegmentation(pairs_of(CORPUS))
    assert ways.uncut.tolist() == [*places]
    assert without.uncut.tolist() == []
    assert ways.units.tolist() == without.units.tolist()
    assert [ways.reestimate() for _ in range(3)] == pytest.approx([without.reestimate() for _ in range(3)])
    assert ways.log_prob.tolist() == pytest.approx(without.log_prob.tolist())
    assert [row.tolist() for row in ways.best()] == [row.tolist() for row in without.best()]


@pytest.mark.parametrize("corpus", [UNCUT, []])
def test_where_nothing_can_be_cut_there_is_nothing(corpus: list[Pair]) -> None:
    ways = Cosegmentation(pairs_of(corpus))
    assert ways.uncut.tolist() == [*range(len(corpus))]
    assert ways.units.shape == (0, 4)
    assert ways.reestimate() == 0.0
    assert ways.best() == []


def test_vocabularies_as_large_as_can_be() -> None:
    """The ids of a unit, two source and two target tokens, must fit into 63 bits. So each vocabulary has at most 55,108
    ids.
    """
    corpus: list[Pair] = [((55_107, 55_106), (55_105, 55_107, 55_106))]
    ways = Cosegmentation(pairs_of(corpus))
    assert list(table(ways)) == list(alike(corpus))
    check_passes(corpus, ways, 2)
    check_best(corpus, ways)
    said = r"vocabularies of 55,109 and 55,109 tokens are too large for .* choose data\.units\.source and"
    with pytest.raises(ValueError, match=said):
        Cosegmentation(pairs_of([((55_108,), (55_108,))]))


# ------------------------------------------------------------------ any corpus


@settings(max_examples=20, deadline=None)
@given(st.lists(cuttable, min_size=1, max_size=3))
def test_any_corpus(corpus: list[Pair]) -> None:
    ways = Cosegmentation(pairs_of(corpus))
    assert table(ways) == pytest.approx(alike(corpus))
    check_passes(corpus, ways, 2)
    draw(ways, 0)
    check_best(corpus, ways)
