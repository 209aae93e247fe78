"""Forced beginnings: outputs contain them, are scored with them, and are what a search from there on finds."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from test_search import Lookup, all_of

from families import FAMILIES, all_lengths, build, sources
from selection import mostly_slow
from test_laws import padded_targets, pick, sources_alone
from transduce.core.types import BOS, EOS, PAD, Padded
from transduce.search.beam import Beam
from transduce.search.forcing import force
from transduce.search.greedy import Greedy
from transduce.search.length_beam import LengthBeam
from transduce.search.ranking import LogProbability
from transduce.search.sampling import Sampling

SEARCHES: dict[str, Any] = {"greedy": Greedy(7), "beam": Beam(3, 2, 7), "samples": Sampling(3, max_length=7)}
BEGINNINGS = [[4, 5], [], [6, 7, 4, 9], [5], [10, 4], [8, 8, 8], []]


def prefixes(rows: list[list[int]]) -> Padded:
    """Junk in the padding is never looked at."""
    width = max(map(len, rows), default=0)
    return Padded(
        torch.tensor([row + [3] * (width - len(row)) for row in rows], dtype=torch.long).view(len(rows), width),
        torch.tensor([len(row) for row in rows]),
    )


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
@pytest.mark.parametrize("beginnings", [BEGINNINGS, [[*row, 4, 6] for row in BEGINNINGS], [[]] * 7])
@pytest.mark.parametrize(
    "family",
    mostly_slow(
        ["luong, gru, scaled dot, fed", "transformer, rotary, gated, rms", "ensemble"],
        fast=["transformer, rotary, gated, rms"],
    ),
)
def test_outputs_contain_their_prefix_and_are_scored_with_it(family: str, beginnings: Any, search: Any) -> None:
    """Alone, in company and in another order: the same, and the model's own log-probability."""
    model, source = build(FAMILIES[family]), sources(all_lengths(family))
    together = search(model, source, prefixes(beginnings))
    order = [3, 6, 0, 5, 2, 4, 1]
    shuffled = search(model, pick(source, order), prefixes([beginnings[row] for row in order]))
    for place, row in enumerate(order):
        alone = search(model, sources_alone(source, row), prefixes([beginnings[row]]))[0]
        for other in (together[row], shuffled[place]):
            assert [h.tokens for h in other] == [h.tokens for h in alone]
            assert [h.score for h in other] == pytest.approx([h.score for h in alone], abs=1e-9)
        for hypothesis in alone:
            assert hypothesis.tokens[: len(beginnings[row])] == tuple(beginnings[row])
            (forced,) = force(model, pick(source, [row]), padded_targets([list(hypothesis.tokens)]))
            assert forced.token_log_probs == pytest.approx(hypothesis.token_log_probs, abs=1e-9)
            assert forced.log_prob == pytest.approx(hypothesis.log_prob, abs=1e-9)


def test_a_prefix_of_nothing_is_none() -> None:
    model = Lookup()
    for search in SEARCHES.values():
        assert search(model, all_of(model), prefixes([[]] * 4)) == search(model, all_of(model))


def test_a_prefix_is_read_in_one_call() -> None:
    """The first call reads as many positions as the shortest prefix has tokens. Each later call reads one."""
    model = Lookup()
    widths: list[int] = []
    extend = model.extend
    model.extend = lambda tokens_BT, state: (widths.append(tokens_BT.shape[1]), extend(tokens_BT, state))[1]
    Greedy(8)(model, all_of(model), prefixes([[3, 4, 5, 6, 3], [4, 4, 5], [3, 3, 3, 3], [5, 6, 5]]))
    assert widths[0] == 3
    assert set(widths[1:]) == {1}


@pytest.mark.parametrize("size", [1, 3, 200])
def test_searching_on_is_searching_a_model_that_has_read_the_prefix(size: int) -> None:
    """Without length normalisation, the prefix adds a constant to the score and cannot change the ranking."""
    model, beginnings = Lookup(), [[3], [4, 6], [5, 5, 5], []]
    found = Beam(size, max_length=6, ranking=LogProbability())(model, all_of(model), prefixes(beginnings))
    for source, beginning in enumerate(beginnings):
        ahead = Lookup()
        state = ahead.start(torch.tensor([source]))
        if beginning:
            _, state = ahead.extend(torch.tensor([[BOS, *beginning[:-1]]]), state)
        first = beginning[-1] if beginning else BOS
        extend = ahead.extend
        ahead.start = lambda source, state=state: state  # type: ignore[method-assign]
        ahead.extend = lambda tokens, state, extend=extend, first=first: extend(  # type: ignore[method-assign]
            torch.where(tokens == BOS, first, tokens), state
        )
        search = Beam(size, max_length=6 - len(beginning), ranking=LogProbability())
        ((expected,),) = search(ahead, torch.tensor([source]))
        assert found[source][0].tokens == (*beginning, *expected.tokens)
        assert found[source][0].token_log_probs[len(beginning) :] == pytest.approx(expected.token_log_probs, abs=1e-9)


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
@pytest.mark.parametrize(
    ("beginnings", "message"),
    [
        ([[4], [5]], r"prefix has 2 rows for 4 sources: give each one"),
        ([[4] * 7, [], [], []], r"a prefix of 7 tokens and the end do not fit max_length = 7: set it to at least 8"),
        ([[4, EOS], [], [], []], r"a prefix holds </s> \(id 2\): give the tokens .* without an end"),
        ([[BOS, 4], [], [], []], r"a prefix holds <s> \(id 1\)"),
        ([[4], [PAD], [], []], r"a prefix holds <pad> \(id 0\)"),
    ],
)
def test_what_is_no_prefix_is_refused(search: Any, beginnings: list[list[int]], message: str) -> None:
    model = Lookup()
    with pytest.raises(ValueError, match=message):
        search(model, all_of(model), prefixes(beginnings))


def test_what_writes_all_at_once_has_no_prefix() -> None:
    with pytest.raises(ValueError, match=r"writes all tokens at once and cannot go on from a prefix: use a model"):
        LengthBeam()(None, None, prefixes([[4]]))  # type: ignore[arg-type]
