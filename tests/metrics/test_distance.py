"""Edit distance: the lectures' tables, all alignments by brute force, rapidfuzz as an oracle, and its laws."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import islice
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import OSA, Levenshtein

import transduce
from transduce.metrics.edit_distance import Costs, Edit, EditTable, distance

words = st.text("abc", max_size=6)
prices = st.sampled_from([0, 0.1, 0.3, 0.5, 1, 2, 3])
all_costs = st.builds(Costs, prices, prices, prices, st.none() | prices)


def test_a_table_that_takes_minutes_is_refused() -> None:
    with pytest.raises(ValueError, match=r"of 20,000 and 20,000 units has 400,040,001 cells, and at most 1,000,000"):
        distance("ab" * 10_000, "ba" * 10_000)


# ------------------------------------------------------------------ worked by hand


def rows(text: str) -> list[list[float]]:
    return [[float(number) for number in line.split()] for line in text.strip().splitlines()]


FAWL_AWN = """
0 1 2 3
1 2 3 4
2 1 2 3
3 2 1 2
4 3 2 3
"""
MONEY_MONKEY = """
0 1 2 3 4 5 6
1 0 1 2 3 4 5
2 1 0 1 2 3 4
3 2 1 0 1 2 3
4 3 2 1 1 1 2
5 4 3 2 2 2 1
"""
INTENTION_EXECUTION = """
0 1 2 3 4 5 6 7 8 9
1 1 2 3 4 5 6 6 7 8
2 2 2 3 4 5 6 7 7 7
3 3 3 3 4 5 5 6 7 8
4 3 4 3 4 5 6 6 7 8
5 4 4 4 4 5 6 7 7 7
6 5 5 5 5 5 5 6 7 8
7 6 6 6 6 6 6 5 6 7
8 7 7 7 7 7 7 6 5 6
9 8 8 8 8 8 8 7 6 5
"""


@pytest.mark.parametrize(
    ("source", "target", "substitution", "expected"),
    [
        ("fawl", "awn", 2, FAWL_AWN),
        ("money", "monkey", 1, MONEY_MONKEY),
        ("intention", "execution", 1, INTENTION_EXECUTION),
    ],
)
def test_the_filled_table(source: str, target: str, substitution: float, expected: str) -> None:
    assert distance(source, target, substitution=substitution).distances == rows(expected)


@pytest.mark.parametrize(
    ("source", "target", "substitution", "expected"),
    [
        ("intention", "execution", 2, 8),
        ("good", "gold", 1, 1),
        ("Hella", "Hello", 1, 1),
        ("Hella", "Hello", 2, 2),
        ("Hello", "He", 1, 3),
        ("monkey", "money", 1, 1),
        ("", "", 1, 0),
        ("", "abc", 1, 3),
    ],
)
def test_the_distance(source: str, target: str, substitution: float, expected: float) -> None:
    assert distance(source, target, substitution=substitution).distance == expected


def test_one_alignment_is_a_row_of_small_values() -> None:
    assert distance("fawl", "awn", substitution=2).alignment() == (
        Edit("delete", ("f",), (), 1.0),
        Edit("match", ("a",), ("a",), 0.0),
        Edit("match", ("w",), ("w",), 0.0),
        Edit("substitute", ("l",), ("n",), 2.0),
    )
    assert [edit.kind for edit in distance("good", "gold").alignment()] == ["match", "match", "substitute", "match"]
    assert [edit.kind for edit in distance("ab", "ba", transposition=1).alignment()] == ["transpose"]


def test_any_units() -> None:
    assert distance("the cat sat", "the mat sat", "words").distance == 1
    assert distance([1, None, 3], [1, 3]).alignment()[1] == Edit("delete", (None,), (), 1.0)
    assert transduce.distance("a b", "b", "words").count == 1


# ------------------------------------------------------------------ brute force


def every(source: Sequence[str], target: Sequence[str], costs: Costs) -> Iterator[tuple[Fraction, tuple[Any, ...]]]:
    """Yields every alignment, good or bad, and its cost. It enumerates the edits from the front by their definition."""
    price = {name: Fraction(str(cost)) for name, cost in vars(costs).items() if cost is not None}
    if not source and not target:
        yield Fraction(0), ()
    steps = []
    if source:
        steps.append((price["deletion"], "delete", 1, 0))
    if target:
        steps.append((price["insertion"], "insert", 0, 1))
    if source and target and source[0] == target[0]:
        steps.append((Fraction(0), "match", 1, 1))
    if source and target and source[0] != target[0]:
        steps.append((price["substitution"], "substitute", 1, 1))
        if "transposition" in price and source[:2] == target[1::-1] and len(source[:2]) == 2:
            steps.append((price["transposition"], "transpose", 2, 2))
    for cost, kind, read, written in steps:
        for rest, later in every(source[read:], target[written:], costs):
            yield cost + rest, ((kind, source[:read], target[:written]), *later)


@settings(max_examples=100, deadline=None)
@given(source=st.text("abc", max_size=4), target=st.text("abc", max_size=4), costs=all_costs)
def test_all_optimal_alignments_and_no_others(source: str, target: str, costs: Costs) -> None:
    found = list(every(source, target, costs))
    least = min(cost for cost, _ in found)
    expected = sorted(alignment for cost, alignment in found if cost == least)

    table = EditTable(source, target, costs)
    ours = [tuple((e.kind, "".join(e.source), "".join(e.target)) for e in each) for each in table.alignments()]

    assert table.distance == pytest.approx(float(least))
    assert sorted(ours) == expected
    assert table.count == len(expected)
    assert next(table.alignments()) == table.alignment()
    assert all(sum(Fraction(str(edit.cost)) for edit in each) == least for each in table.alignments())

    def cells(alignment: tuple[Any, ...]) -> set[tuple[int, int]]:
        ends = range(len(alignment) + 1)
        return {(sum(len(x) for _, x, _ in alignment[:k]), sum(len(y) for *_, y in alignment[:k])) for k in ends}

    for i, row in enumerate(table.passing):
        for j, passing in enumerate(row):
            assert passing == sum((i, j) in cells(alignment) for alignment in expected)


@settings(max_examples=60, deadline=None)
@given(source=words, target=words, costs=all_costs)
def test_a_cell_is_the_least_of_its_options(source: str, target: str, costs: Costs) -> None:
    table = EditTable(source, target, costs)
    for i, row in enumerate(table.distances):
        for j, cost in enumerate(row):
            assert cost == EditTable(source[:i], target[:j], costs).distance
            options = table.options(i, j)
            assert cost == min((total for _, total in options), default=0)
            assert table.edits(i, j) == [edit for edit, total in options if total == cost]


def test_many_alignments_are_counted_not_made() -> None:
    table = distance("a" * 60, "b" * 60, substitution=2)  # Delannoy's number of all alignments, in closed form
    assert table.count == sum(math.comb(60, k) ** 2 * 2**k for k in range(61)) > 10**44
    assert len(list(islice(table.alignments(), 5))) == 5


# ------------------------------------------------------------------ rapidfuzz


@settings(max_examples=200, deadline=None)
@given(source=words, target=words, weights=st.tuples(*[st.integers(0, 4)] * 3))
def test_rapidfuzz_agrees_with_weights(source: str, target: str, weights: tuple[int, int, int]) -> None:
    assert EditTable(source, target, Costs(*weights)).distance == Levenshtein.distance(source, target, weights=weights)


@settings(max_examples=200, deadline=None)
@given(source=st.text(max_size=8), target=st.text(max_size=8))
def test_rapidfuzz_agrees_on_any_text(source: str, target: str) -> None:
    assert distance(source, target).distance == Levenshtein.distance(source, target)
    assert distance(source, source).alignment() == tuple(Edit("match", (c,), (c,), 0.0) for c in source)


@settings(max_examples=300, deadline=None)
@given(source=words, target=words)
def test_rapidfuzz_agrees_with_transpositions(source: str, target: str) -> None:
    assert distance(source, target, transposition=1).distance == OSA.distance(source, target)


# ------------------------------------------------------------------ laws of a distance


@settings(max_examples=100, deadline=None)
@given(source=words, target=words, costs=all_costs)
def test_symmetry(source: str, target: str, costs: Costs) -> None:
    turned = Costs(costs.deletion, costs.insertion, costs.substitution, costs.transposition)
    there, back = EditTable(source, target, costs), EditTable(target, source, turned)
    assert (there.distance, there.count) == (back.distance, back.count)


@settings(max_examples=100, deadline=None)
@given(one=words, two=words, three=words, costs=all_costs)
def test_the_triangle_inequality(one: str, two: str, three: str, costs: Costs) -> None:
    assume(costs.transposition is None)
    way = EditTable(one, two, costs).distance + EditTable(two, three, costs).distance
    assert EditTable(one, three, costs).distance <= way + 1e-9


def test_transposition_breaks_the_triangle() -> None:
    way = [
        distance(one, other, transposition=1).distance for one, other in (("ca", "ac"), ("ac", "abc"), ("ca", "abc"))
    ]
    assert way == [1, 1, 3]


def test_ties_are_exact() -> None:
    assert distance("abc", "", deletion=0.1).distance == 0.3  # in floats, 0.1 + 0.1 + 0.1 and 0.1 + 0.2 differ from it
    assert distance("a", "b", insertion=0.1, deletion=0.2, substitution=0.3).count == 3


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize("name", ["insertion", "deletion", "substitution", "transposition"])
@pytest.mark.parametrize("cost", [-1, float("nan"), float("inf")])
def test_a_cost_is_a_number_from_zero_up(name: str, cost: float) -> None:
    with pytest.raises(ValueError, match=f"{name} = {cost}: a cost is a number from 0 up"):
        Costs(**{name: cost})


def test_unknown_units() -> None:
    with pytest.raises(ValueError, match="units 'word': expected characters or words"):
        distance("a", "b", "word")
