"""Exact search against the list of all outputs, and its report of an unfinished search."""

from __future__ import annotations

import logging
import weakref
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch
from test_prefix import prefixes
from test_search import VOCABULARY, Lookup, Prefix, all_of, code_after
from torch import Tensor

from families import FAMILIES, build, sources
from selection import mostly_slow
from transduce.core import config
from transduce.core.protocols import Search
from transduce.core.tree import Buffer
from transduce.core.types import BOS, EOS, PAD, UNK
from transduce.search.beam import Beam
from transduce.search.exact import ROWS, Exact, _extend
from transduce.search.greedy import Greedy
from transduce.search.ranking import LogProbability
from transduce.search.reading import capacity

Tokens = tuple[int, ...]
LUONG, TRANSFORMER = "luong, gru, scaled dot, fed", "transformer, pre-norm"
WORDS = [token for token in range(VOCABULARY) if token not in (PAD, BOS, EOS, UNK)]


def beginnings(model: Lookup, source: int, longest: int) -> dict[Tokens, float]:
    """All prefixes without an end that have fewer than ``longest`` tokens, and their log-probabilities."""
    found: dict[Tokens, float] = {(): 0.0}
    for length in range(longest - 1):
        for prefix in [prefix for prefix in found if len(prefix) == length]:
            each = model.log_probs(source, prefix)
            found.update({(*prefix, token): found[prefix] + each[token] for token in WORDS})
    return found


@cache
def rare_ends(seed: int) -> Lookup:
    """A model with improbable ends, so that a beam of one is sometimes wrong."""
    model = Lookup(seed)
    model.logits[:, :, EOS] -= 3
    return model


@cache
def outputs(model: Lookup, source: int, longest: int) -> dict[Tokens, float]:
    every = beginnings(model, source, longest)
    return {(*prefix, EOS): every[prefix] + model.log_probs(source, prefix)[EOS] for prefix in every}


@pytest.mark.parametrize(("together", "states"), [(1, 1), (3, 2), (64, 32)])
@pytest.mark.parametrize("nbest", [1, 4])
def test_the_most_probable_of_all(nbest: int, together: int, states: int) -> None:
    wrong = 0
    for seed in range(8):
        model = rare_ends(seed)
        for source, found in enumerate(Exact(nbest, 5, beam=1, together=together, states=states)(model, all_of(model))):
            every = outputs(model, source, 5)
            best = sorted(every, key=lambda tokens: -every[tokens])[:nbest]
            assert [h.tokens for h in found] == best
            assert [h.log_prob for h in found] == pytest.approx([every[tokens] for tokens in best], abs=1e-9)
            assert all(h.score == h.log_prob for h in found)
            wrong += Greedy(5)(model, torch.tensor([source]))[0][0].tokens != best[0]
    assert wrong > 3


def test_nothing_is_extended_that_cannot_be_the_beginning_of_a_better_one() -> None:
    """The search reads the empty prefix and the prefixes that are more probable than the best output, and no others."""
    for seed in range(5):
        model = Lookup(seed)
        for source, explored in enumerate(Exact(max_length=5, beam=300).explore(model, all_of(model))):
            best = explored.hypotheses[0].log_prob
            needed = [prefix for prefix, each in beginnings(model, source, 5).items() if each > best or not prefix]
            assert explored.expansions == len(needed)
            assert explored.finished


def test_what_is_left_unfinished_is_told(caplog: pytest.LogCaptureFixture) -> None:
    model = Lookup(2)
    search = Exact(3, 6, expansions=12, together=5)
    explored = search.explore(model, all_of(model))
    whole = [each.expansions for each in Exact(3, 6, together=5).explore(model, all_of(model))]
    assert [each.finished for each in explored] == [needed <= 12 for needed in whole]
    assert [each.expansions for each in explored] == [min(needed, 12) for needed in whole]
    assert len({each.finished for each in explored}) == 2
    beam = Beam(5, 3, 6, LogProbability())(model, all_of(model))
    for each, seeds in zip(explored, beam, strict=True):
        assert each.hypotheses[0].log_prob >= seeds[0].log_prob
    with caplog.at_level(logging.WARNING, "transduce"):
        assert search(model, all_of(model)) == [each.hypotheses for each in explored]
    left = sum(not each.finished for each in explored)
    assert caplog.records[0].getMessage().startswith(f"exact search left {left} of 4 sources after expansions = 12")


def test_an_empty_output_that_wins_is_told() -> None:
    """The empty output has the probability 0.2, and any other output at most 0.16. Greedy search does not find it."""
    model = Lookup(ends=(0.0,))
    model.logits[:] = torch.tensor([0.0, 0, 0.2, 0, 0.8, 0, 0]).log()
    (explored,) = Exact(max_length=9).explore(model, torch.tensor([0]))
    assert explored.empty_wins
    assert explored.hypotheses[0].tokens == (EOS,)
    assert len(Greedy(9)(model, torch.tensor([0]))[0][0].tokens) == 9
    model.logits[:] = torch.tensor([0.0, 0, 0.6, 0, 0.4, 0, 0]).log()
    model.logits[0, code_after(0, BOS)] = torch.tensor([0.0, 0, 0.1, 0, 0.9, 0, 0]).log()  # the first token
    (explored,) = Exact(max_length=9).explore(model, torch.tensor([0]))
    assert not explored.empty_wins


def test_from_a_prefix() -> None:
    model, wanted = Lookup(1), [[5], [], [4, 6], [5, 5, 5]]
    found = Exact(2, 6, beam=1)(model, all_of(model), prefixes(wanted))
    for source, beginning in enumerate(wanted):
        every = {y: p for y, p in outputs(model, source, 6).items() if list(y[: len(beginning)]) == beginning}
        best = sorted(every, key=lambda tokens: -every[tokens])[:2]
        assert [h.tokens for h in found[source]] == best
        assert [h.log_prob for h in found[source]] == pytest.approx([every[tokens] for tokens in best], abs=1e-9)


def test_sources_wait_for_their_turn() -> None:
    """There are more sources than one step explores. The result is the same as for each source alone."""
    model = Lookup(ends=(0.0,) * 30)
    together = Exact(max_length=6, together=16).explore(model, all_of(model))
    alone = [Exact(max_length=6, together=16).explore(model, torch.tensor([source]))[0] for source in range(30)]
    assert together == alone
    assert max(model.rows) <= 30 * 5


LIVING: weakref.WeakSet[Any] = weakref.WeakSet()


@dataclass(frozen=True, eq=False)
class Counted(Prefix):
    """A state that is in ``LIVING`` while something refers to it."""

    def __post_init__(self) -> None:
        LIVING.add(self)


class Counting(Lookup):
    """Notes at each step how many rows of states exist, including the rows of the step itself."""

    def __init__(self, sources: int) -> None:
        super().__init__(ends=(0.0,) * sources)
        self.logits *= 0.3
        self.logits[:, :, EOS] -= 8  # an end is improbable, and all else is equal, so exact search reads many prefixes
        self.alive: list[int] = []

    def start(self, source: Tensor) -> Counted:
        return Counted(source, torch.zeros_like(source))

    def extend(self, tokens_BT: Tensor, state: Prefix) -> tuple[Tensor, Counted]:
        output, after = super().extend(tokens_BT, state)
        self.alive.append(sum(len(each.code) for each in LIVING))
        return output, Counted(after.source, after.code)


@pytest.mark.parametrize(("together", "states"), mostly_slow([(8, 8), (4, 30), (1, 3)], fast=[(8, 8)]))
def test_states_are_few_however_many_sources_and_steps(together: int, states: int) -> None:
    """The number of states has a bound: one for each of 64 waiting sources, some for each active source, and four for
    each row of a step. It does not grow with the number of sources.
    """
    most = {}
    for count, expansions in [(64, 60), (100, 60)]:
        model = Counting(count)
        search = Exact(max_length=9, expansions=expansions, beam=1, together=together, states=states)
        explored = search.explore(model, all_of(model))
        assert not any(each.finished for each in explored)
        most[count, expansions] = max(model.alive)
    active = ROWS // together
    assert max(most.values()) <= 64 + active * (1 + states) + 4 * 64
    assert most[100, 60] == most[64, 60]


def test_prefixes_on_the_way_back_are_few() -> None:
    """At each depth, at most the prefixes of one step are kept."""
    model = Counting(1)
    search = Exact(max_length=9, expansions=3000, beam=1, together=4)
    (descent,) = search._descents(model, all_of(model), None)
    most = 0
    while descent.open:
        _extend(model, descent.following())
        depths = [len(branching.prefix.tokens) for branching in descent.branchings]
        assert depths == sorted(depths)
        assert max(map(depths.count, depths), default=0) <= 4
        most = max(most, len(depths))
    assert 8 < most <= 4 * 9


def test_a_source_keeps_few_states() -> None:
    model = Counting(1)
    search = Exact(max_length=9, expansions=300, beam=1, together=1, states=3)
    (descent,) = search._descents(model, all_of(model), None)
    depths = set()
    while descent.open:
        _extend(model, descent.following())
        depths.add(len(descent.branchings))
        assert sum(each.state is not None for each in descent.branchings) <= 3
    assert max(depths) > 3


@pytest.mark.parametrize("family", mostly_slow([LUONG, TRANSFORMER, "ctc and attention"], fast=[TRANSFORMER]))
def test_what_is_read_again_is_the_same(family: str) -> None:
    model, source = build(FAMILIES[family]), sources([4, 2, 6])
    kept, again = (Exact(3, 4, beam=1, states=states).explore(model, source) for states in (500, 1))
    assert [each.expansions for each in again] == [each.expansions for each in kept]
    for ours, theirs in zip(again, kept, strict=True):
        assert [h.tokens for h in ours.hypotheses] == [h.tokens for h in theirs.hypotheses]
        assert [h.log_prob for h in ours.hypotheses] == pytest.approx([h.log_prob for h in theirs.hypotheses])


def test_attention_looks_no_further_than_the_longest_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of different depth are joined and selected again and again. Their buffers must not grow with that."""
    capacities: list[int] = []
    write = Buffer.write

    def noting(*arguments: Any) -> Buffer:
        found = write(*arguments)
        capacities.append(found.capacity)
        return found

    monkeypatch.setattr(Buffer, "write", noting)
    model = build(FAMILIES["transformer, pre-norm"])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 0.6
        model.decoder.projection.bias[EOS] = -12  # ends are improbable, so the search reads many prefixes
    Exact(max_length=10, expansions=300, beam=1).explore(model, sources([3, 4, 5, 6] * 2))
    assert len(capacities) > 50
    assert max(capacities) <= capacity(10)


@pytest.mark.parametrize("name", ["nbest", "expansions", "beam", "together", "states"])
def test_options_that_are_none(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} = 0: at least 1"):
        Exact(**{name: 0})


def test_it_is_named_and_resized() -> None:
    assert config.build({"type": "exact", "expansions": 50}, Search) == Exact(expansions=50)
    resized: Any = Exact(beam=3).resized(7, 2)
    assert resized == Exact(2, beam=7)
    assert Exact(beam=3).resized(nbest=2) == Exact(2, beam=3)
    with pytest.raises(ValueError, match="max_length = 0"):
        Exact(max_length=0)
