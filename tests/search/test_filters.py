"""Filters of a search against the list of all outputs, in beams with room for everything."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_prefix import BEGINNINGS, prefixes
from test_search import Lookup, all_of
from torch import Tensor

from families import FAMILIES, all_lengths, build, sources
from selection import mostly_slow
from test_laws import padded_targets, pick, sources_alone
from transduce.core import config
from transduce.core.protocols import Search
from transduce.core.types import EOS, UNK, Padded
from transduce.search.base import Filter, Stateless
from transduce.search.beam import Beam
from transduce.search.filters.lengths import LengthLimit
from transduce.search.filters.ngrams import NoRepeat
from transduce.search.forcing import force
from transduce.search.greedy import Greedy
from transduce.search.ranking import LogProbability

LONGEST = 4
WORDS = (3, 4, 5)


class Tables(Lookup):
    """A model of three words whose sources have the lengths 1, 2, 3, ..."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, vocabulary=6)

    def start(self, source: Any) -> Any:
        return super().start(source.lengths - 1)


def every_output() -> Iterator[tuple[int, ...]]:
    for length in range(LONGEST):
        for body in itertools.product(WORDS, repeat=length):
            yield (*body, EOS)


def log_prob(model: Lookup, source: int, tokens: tuple[int, ...]) -> float:
    return sum(model.log_probs(source, tokens[:place])[token] for place, token in enumerate(tokens))


Rule = Callable[[tuple[int, ...], int], bool]
"""Whether a beginning of an output may be written, given the source's length."""


def of_length(least: Callable[[int], float], most: Callable[[int], float]) -> Rule:
    def allowed(tokens: tuple[int, ...], source: int) -> bool:
        ends = tokens[-1] == EOS
        return (not ends or len(tokens) >= int(least(source))) and (ends or len(tokens) < int(most(source)))

    return allowed


def without_repeats(n: int) -> Rule:
    def allowed(tokens: tuple[int, ...], source: int) -> bool:
        sequences = [tokens[place : place + n] for place in range(len(tokens) - n + 1)]
        return len(set(sequences)) == len(sequences)

    return allowed


RULES: dict[str, tuple[tuple[Filter[Any], ...], Rule]] = {
    "minimum": ((LengthLimit(3),), of_length(lambda s: 3, lambda s: 99)),
    "maximum": ((LengthLimit(maximum=2),), of_length(lambda s: 0, lambda s: 2)),
    "between, relative": (
        (LengthLimit(1, 1, 0.5, 1.0),),
        of_length(lambda s: 1 + 0.5 * s, lambda s: 1 + s),
    ),
    "no word twice": ((NoRepeat(1),), without_repeats(1)),
    "no two words twice": ((NoRepeat(2),), without_repeats(2)),
    "both": (
        (NoRepeat(1), LengthLimit(2)),
        lambda tokens, s: without_repeats(1)(tokens, s) and of_length(lambda s: 2, lambda s: 99)(tokens, s),
    ),
}


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=5, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000))
def test_a_beam_with_room_for_all_finds_all_that_is_allowed(rule: str, seed: int) -> None:
    """A wide beam finds exactly the allowed outputs, with the model's own log-probabilities. A narrow beam and greedy
    search find only allowed outputs.
    """
    filters, allowed = RULES[rule]
    model, source = Tables(seed), Padded(torch.zeros(4, 4), torch.tensor([1, 2, 3, 4]))
    found = Beam(200, 200, LONGEST, LogProbability(), filters, unknown=True)(model, source)
    narrow = Beam(2, 2, LONGEST, LogProbability(), filters, unknown=True)(model, source)
    for row, length in enumerate([1, 2, 3, 4]):
        expected = {y: log_prob(model, row, y) for y in every_output() if written(allowed, y, length)}
        assert {h.tokens: h.log_prob for h in found[row]} == pytest.approx(expected, abs=1e-9)
        assert [h.score for h in found[row]] == pytest.approx(sorted(expected.values(), reverse=True), abs=1e-9)
        assert {h.tokens for h in narrow[row]} <= expected.keys()
        (greedy,) = Greedy(LONGEST, filters, unknown=True)(model, pick(source, [row]))[0]
        assert greedy.tokens in expected


@pytest.mark.parametrize(("ratio", "expected"), [(1.4, [63, 119, 126]), (1.1, [49, 93, 99]), (0.1, [4, 8, 9])])
def test_a_length_is_its_decimal_product(ratio: float, expected: list[int]) -> None:
    """The limit is the exact decimal product: 1.4 * 45 is 63, although it is a little less in binary."""
    source = Padded(torch.zeros(3, 90), torch.tensor([45, 85, 90]))
    assert LengthLimit(maximum_ratio=ratio).start(source).most_N.tolist() == expected
    assert LengthLimit(minimum_ratio=ratio).start(source).least_N.tolist() == expected


def test_where_a_source_is_too_short_for_both_limits_the_upper_one_holds() -> None:
    limits = LengthLimit(minimum=5, maximum_ratio=1.0).start(Padded(torch.zeros(2, 8), torch.tensor([3, 8])))
    assert (limits.least_N.tolist(), limits.most_N.tolist()) == ([3, 5], [3, 8])


def written(allowed: Rule, tokens: tuple[int, ...], length: int) -> bool:
    """Returns whether a search can return these tokens. Every prefix must be allowed. The end is forced at LONGEST
    tokens, or if nothing else is allowed.
    """
    *beginnings, whole = (tokens[: end + 1] for end in range(len(tokens)))
    forced = len(whole) == LONGEST or stuck(allowed, whole[:-1], length)
    return all(allowed(beginning, length) for beginning in beginnings) and (forced or allowed(whole, length))


def stuck(allowed: Rule, tokens: tuple[int, ...], length: int) -> bool:
    """Returns whether nothing may follow, not even the end."""
    return not any(allowed((*tokens, token), length) for token in (*WORDS, EOS))


@dataclass(frozen=True)
class Tax(Stateless):
    """Subtracts a price from every word except the first."""

    price: float

    def __call__(self, scores_NV: Tensor, state: None) -> Tensor:
        scores_NV[:, 4:] -= self.price
        return scores_NV


def test_a_filter_changes_scores_and_no_log_probability() -> None:
    model = Lookup(3)
    for source, hypotheses in enumerate(Beam(3, 3, 6, LogProbability(), (Tax(1.5),))(model, all_of(model))):
        for found in hypotheses:
            assert found.log_prob == pytest.approx(log_prob(model, source, found.tokens), abs=1e-9)
            assert found.score == pytest.approx(found.log_prob - 1.5 * sum(t > UNK for t in found.tokens), abs=1e-9)


# ------------------------------------------------------------------ laws

FILTERED: dict[str, Any] = {
    "greedy": Greedy(7, (LengthLimit(3, 4, 0.0, 0.5), NoRepeat(1))),
    "beam": Beam(3, 2, 7, filters=(NoRepeat(2), LengthLimit(2, minimum_ratio=0.5), Tax(0.1))),
}


@pytest.mark.parametrize("prefix", [False, True], ids=["free", "prefix"])
@pytest.mark.parametrize("search", FILTERED.values(), ids=FILTERED)
@pytest.mark.parametrize(
    "family", mostly_slow(["luong, coverage, fed", "transformer, pre-norm"], fast=["luong, coverage, fed"])
)
def test_company_and_score(family: str, search: Any, prefix: bool) -> None:
    """A row has the same outputs alone and in any batch and order, with all filters. Their log-probabilities are the
    model's own.
    """
    model, source = build(FAMILIES[family]), sources(all_lengths(family))
    forced = [prefixes([BEGINNINGS[row]]) if prefix else None for row in range(7)]
    together = search(model, source, prefixes(BEGINNINGS) if prefix else None)
    order = [3, 6, 0, 5, 2, 4, 1]
    shuffled = search(model, pick(source, order), prefixes([BEGINNINGS[row] for row in order]) if prefix else None)
    for place, row in enumerate(order):
        alone = search(model, sources_alone(source, row), forced[row])[0]
        for other in (together[row], shuffled[place]):
            assert [h.tokens for h in other] == [h.tokens for h in alone]
            assert [h.score for h in other] == pytest.approx([h.score for h in alone], abs=1e-9)
        for hypothesis in alone:
            (own,) = force(model, pick(source, [row]), padded_targets([list(hypothesis.tokens)]))
            assert own.token_log_probs == pytest.approx(hypothesis.token_log_probs, abs=1e-9)


def test_a_prefix_counts_as_written() -> None:
    """The prefix's words may not be repeated, and they count as length. No filter keeps them from being forced."""
    model = Lookup()
    for search in (
        Greedy(9, (NoRepeat(1), LengthLimit(4, 5))),
        Beam(4, 4, 9, filters=(NoRepeat(1), LengthLimit(4, 5))),
    ):
        for found in search(model, all_of(model), prefixes([[3, 3], [4], [], [5, 6, 5]])):
            for hypothesis in found:
                assert 4 <= len(hypothesis.tokens) <= 5
    (found,) = Greedy(9, (NoRepeat(1),))(model, torch.tensor([0]), prefixes([[3, 3]]))
    assert 3 not in found[0].tokens[2:]


# ------------------------------------------------------------- configuration, errors


def test_filters_are_written_down() -> None:
    table = {"type": "beam", "filters": [{"type": "length", "minimum": 3}, {"type": "no-repeat", "n": 2}]}
    built: Any = config.build(table, Search)
    assert built == Beam(filters=(LengthLimit(3), NoRepeat(2)))
    assert config.build(config.resolve(table, Search), Search) == built
    assert built.resized(7).filters == Greedy(filters=built.filters).resized(7).filters == built.filters


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NoRepeat(0), r"n = 0: at least 1 token was expected"),
        (lambda: LengthLimit(minimum_ratio=-1.0), r"minimum_ratio = -1.0: a share of the source's length"),
        (lambda: LengthLimit(5, 3), r"minimum = 5 .* ask for more than maximum = 3"),
        (
            lambda: LengthLimit(0, 9, 1.5, 1.0),
            r"minimum_ratio = 1.5 ask for more than maximum = 9 and maximum_ratio = 1.0",
        ),
        (lambda: LengthLimit(maximum_ratio=2.0).start(torch.zeros(2)), r"this source has no length"),
    ],
)
def test_what_is_no_filter_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
