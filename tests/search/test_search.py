"""Searches over models that are tables, so that every answer can be worked out slowly (the laws are in test_laws)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from selection import mostly_slow
from transduce.core.errors import UserError
from transduce.core.types import BOS, EOS, PAD, UNK, Padded
from transduce.search.base import Ranking
from transduce.search.beam import Beam
from transduce.search.exact import Exact
from transduce.search.filters.lengths import LengthLimit
from transduce.search.forcing import force
from transduce.search.greedy import Greedy
from transduce.search.ranking import Average, BoundedReward, LogProbability, Wu
from transduce.search.reading import step
from transduce.search.sampling import Sampling

VOCABULARY = 7
CODES = 101  # prefixes are told apart by a hash: tables of this many rows


@dataclass(frozen=True)
class Prefix:
    """Which source, and a hash of the tokens so far."""

    source: Tensor
    code: Tensor


class Lookup:
    """Logits drawn from N(0, 4) for each source and prefix. ``ends`` is added to each source's EOS logits."""

    def __init__(self, seed: int = 0, ends: tuple[float, ...] = (0.0,) * 4, vocabulary: int = VOCABULARY) -> None:
        generator = torch.Generator().manual_seed(seed)
        shape = (len(ends), CODES, vocabulary)
        self.logits = 2 * torch.randn(shape, dtype=torch.float64, generator=generator)
        self.logits[:, :, EOS] += torch.tensor(ends, dtype=torch.float64)[:, None]
        self.rows: list[int] = []  # how many were asked for at each step

    def start(self, source: Tensor) -> Prefix:
        return Prefix(source, torch.zeros_like(source))

    def extend(self, tokens_BT: Tensor, state: Prefix) -> tuple[Tensor, Prefix]:
        self.rows.append(len(tokens_BT))
        code_N, outputs = state.code, []
        for token_N in tokens_BT.unbind(1):
            code_N = code_after(code_N, token_N)
            outputs.append(self.logits[state.source, code_N])
        return torch.stack(outputs, 1), Prefix(state.source, code_N)

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        return output if candidates is None else output[..., candidates]

    def log_probs(self, source: int, prefix: tuple[int, ...]) -> list[float]:
        """log p(. | prefix), without any of the above."""
        code = 0
        for token in (BOS, *prefix):
            code = code_after(code, token)
        logits = self.logits[source, code].tolist()
        normaliser = math.log(sum(math.exp(logit) for logit in logits))
        return [logit - normaliser for logit in logits]


def code_after(code: Any, token: Any) -> Any:
    return (code * 31 + token + 7) % CODES


def all_of(model: Lookup) -> Tensor:
    return torch.arange(len(model.logits))


def slow_beam(
    model: Lookup, source: int, beam: Beam, source_length: int = 0
) -> tuple[list[tuple[float, tuple[int, ...]]], int]:
    """The best finished hypotheses, (score, tokens), and the number of steps, by the definition.

    ``size`` hypotheses are active. EOS counts among the ``size`` best continuations. All hypotheses end at
    ``max_length``. The search stops when ``size`` hypotheses have finished and the best active one, at its present
    length, scores no better than the last of the n-best. It does not stop early by a bound on later scores."""
    live, finished = [(0.0, ())], []
    for length in range(1, beam.max_length + 1):
        continuations = [
            (total + log_prob, (*prefix, token))
            for total, prefix in live
            for token, log_prob in enumerate(model.log_probs(source, prefix))
            if token not in (PAD, BOS, UNK) and (token == EOS or length < beam.max_length)
        ]
        continuations.sort(reverse=True)
        finished += [
            (beam.ranking(total, length, source_length), y) for total, y in continuations[: beam.size] if y[-1] == EOS
        ]
        live = [(total, y) for total, y in continuations if y[-1] != EOS][: beam.size]
        best = sorted(finished, reverse=True)[: beam.nbest]
        alive = beam.ranking(live[0][0], length, source_length) if live else float("-inf")
        if not live or (len(finished) >= beam.size and alive <= best[-1][0]):
            break
    return best, length


@pytest.mark.parametrize(
    "ranking", mostly_slow([LogProbability(), Average(), Wu(), Wu(1.5)], fast=[LogProbability(), Wu(1.5)]), ids=repr
)
@pytest.mark.parametrize(
    ("size", "nbest"), mostly_slow([(1, 1), (2, 1), (3, 3), (4, 2), (6, 1)], fast=[(2, 1), (3, 3), (6, 1)])
)
def test_beam_search_is_its_definition_and_stopping_early_loses_nothing(
    size: int, nbest: int, ranking: Ranking
) -> None:
    saved = 0
    for seed in range(24):
        model, beam = Lookup(seed), Beam(size, nbest, 6, ranking)
        # A hypothesis that starts poorly can still win late if distributions are peaked.
        model.logits *= torch.tensor([0.5, 1.5, 3.0, 5.0])[:, None, None]
        for source, found in enumerate(beam(model, all_of(model))):
            expected, steps = slow_beam(model, source, beam)
            assert [h.tokens for h in found] == [tokens for _, tokens in expected]
            assert [h.score for h in found] == pytest.approx([score for score, _ in expected], abs=1e-9)
            model.rows.clear()
            beam(model, torch.tensor([source]))
            assert len(model.rows) <= steps
            saved += steps - len(model.rows)
    assert (saved > 0) is (nbest < size)  # the bound has stopped some searches, or the test would say nothing


def test_a_sure_output_is_not_lost_to_improbable_ends_before_it() -> None:
    """As many have ended as the beam is wide, each of them an accident, while the sure one is still being written."""
    model = Lookup(1)
    model.logits[:] = 0.0
    model.logits[..., EOS], model.logits[..., 5] = 2.0, 6.0
    (found,), *_ = Beam(3, max_length=8)(model, all_of(model))
    assert found.tokens == (5,) * 7 + (EOS,)


def test_greedy_search_is_its_definition() -> None:
    for seed in range(10):
        model = Lookup(seed)
        for source, (found,) in enumerate(Greedy(6)(model, all_of(model))):
            tokens: tuple[int, ...] = ()
            log_probs: list[float] = []
            while not tokens or tokens[-1] != EOS:
                each = model.log_probs(source, tokens)
                wanted = [t for t in range(VOCABULARY) if t not in (PAD, BOS, UNK)] if len(tokens) < 5 else [EOS]
                best = max(wanted, key=lambda token: each[token])
                tokens, log_probs = (*tokens, best), [*log_probs, each[best]]
            assert found.tokens == tokens
            assert found.token_log_probs == pytest.approx(log_probs, abs=1e-9)
            assert found.log_prob == found.score == pytest.approx(sum(log_probs), abs=1e-9)


@pytest.mark.parametrize("search", [Beam(10**12), Sampling(10**12)])
def test_a_search_that_memory_cannot_hold_is_refused_before_it_is_allocated(search: Any) -> None:
    model = Lookup(3)
    with pytest.raises(UserError, match=r"size = 1000000000000: a step of this search needs at least [\d,.]+ GiB"):
        search(model, all_of(model))


def test_hypotheses_are_different_and_no_more_than_asked_for() -> None:
    model = Lookup(3)
    for found in Beam(5, 4, 8)(model, all_of(model)):
        assert len({h.tokens for h in found}) == len(found) <= 4


# ---------------------------------------------------------------------- edges

SEARCHES = [Greedy(6), Beam(1, max_length=6), Beam(4, 2, max_length=6)]


@pytest.mark.parametrize("search", [Greedy(1), Beam(1, max_length=1), Beam(5, 3, max_length=1)], ids=repr)
def test_an_output_of_one_token_is_its_end(search: Any) -> None:
    model = Lookup()
    for source, found in enumerate(search(model, all_of(model))):
        assert [h.tokens for h in found] == [(EOS,)]
        assert found[0].log_prob == pytest.approx(model.log_probs(source, ())[EOS], abs=1e-9)


@pytest.mark.parametrize("search", SEARCHES, ids=repr)
def test_a_model_that_never_ends_is_ended(search: Any) -> None:
    model = Lookup(ends=(-200.0,) * 4)
    for source, found in enumerate(search(model, all_of(model))):
        for hypothesis in found:
            assert len(hypothesis.tokens) == 6
            assert hypothesis.tokens.index(EOS) == 5
            forced = sum(model.log_probs(source, hypothesis.tokens[:n])[t] for n, t in enumerate(hypothesis.tokens))
            assert hypothesis.log_prob == pytest.approx(forced, abs=1e-9)
    assert len(model.rows) == 6


@pytest.mark.parametrize("search", SEARCHES, ids=repr)
def test_a_model_that_ends_at_once_is_asked_once(search: Any) -> None:
    model = Lookup(ends=(200.0,) * 4)
    found = search(model, all_of(model))
    assert [hypotheses[0].tokens for hypotheses in found] == [(EOS,)] * 4
    assert len(model.rows) <= 2  # a beam of several looks on until nothing alive can win


def test_a_source_with_nothing_alive_is_done() -> None:
    """However few have finished: a filter leaves nothing but the end."""
    model = Lookup(ends=(-5.0,) * 4)
    found = Beam(3, 3, 20, filters=(LengthLimit(maximum=2),))(model, all_of(model))
    assert [len(hypotheses) for hypotheses in found] == [3] * 4
    model.rows.clear()
    assert [
        len(hypotheses) for hypotheses in Beam(5, 5, 20, filters=(LengthLimit(maximum=1),))(model, all_of(model))
    ] == [1] * 4
    assert len(model.rows) == 1


def test_a_beam_wider_than_the_vocabulary() -> None:
    model = Lookup(vocabulary=5)
    wide = Beam(40, 40, 3, LogProbability(), unknown=True)
    for source, found in enumerate(wide(model, all_of(model))):
        every = [(), (3,), (4,), (3, 3), (3, 4), (4, 3), (4, 4)]
        totals = {
            (*body, EOS): sum(model.log_probs(source, y[:n])[t] for n, t in enumerate(y))
            for body in every
            for y in [(*body, EOS)]
        }
        assert [h.tokens for h in found] == sorted(totals, key=lambda y: -totals[y])
        assert [h.log_prob for h in found] == pytest.approx(sorted(totals.values(), reverse=True), abs=1e-9)


@pytest.mark.parametrize("search", SEARCHES, ids=repr)
def test_finished_rows_leave_and_disturb_no_other(search: Any) -> None:
    model, search = Lookup(5, (200.0, -200.0, 0.0, 200.0, -200.0)), replace(search, unknown=True)
    together = search(model, all_of(model))
    width = getattr(search, "size", 1)
    assert model.rows[0] == 5  # all hypotheses of a source begin as one
    assert model.rows[1] <= 5 * width
    assert model.rows[1:] == sorted(model.rows[1:], reverse=True)
    assert model.rows[-1] == 2 * width  # the two that never end
    for source in range(5):
        (alone,) = search(model, torch.tensor([source]))
        assert [h.tokens for h in together[source]] == [h.tokens for h in alone]


@pytest.mark.parametrize("search", SEARCHES, ids=repr)
def test_special_tokens_are_never_written_however_likely(search: Any) -> None:
    model = Lookup()
    model.logits[:, :, [PAD, BOS, UNK]] += 20
    for source, found in enumerate(search(model, all_of(model))):
        tokens = found[0].tokens
        assert not {PAD, BOS, UNK} & set(tokens)
        forced = sum(model.log_probs(source, tokens[:n])[t] for n, t in enumerate(tokens))
        assert found[0].log_prob == pytest.approx(forced, abs=1e-9)  # their probability stays lost
        assert found[0].log_prob < -15


@pytest.mark.parametrize(("size", "nbest"), [(3, 4), (3, 0), (0, 0), (0, 1)])
def test_a_beam_has_room_for_what_is_asked(size: int, nbest: int) -> None:
    with pytest.raises(ValueError, match=f"nbest = {nbest}, size = {size}"):
        Beam(size, nbest)


@pytest.mark.parametrize("search", [Greedy, lambda max_length: Beam(max_length=max_length)], ids=["greedy", "beam"])
def test_an_output_has_a_token(search: Any) -> None:
    with pytest.raises(ValueError, match=r"max_length = 0: .* at least one token"):
        search(max_length=0)


# -------------------------------------------------------- ranking, forcing, step


def test_rankings_are_their_formulas() -> None:
    assert LogProbability()(-6.0, 4) == -6.0
    assert Average()(-6.0, 4) == -1.5
    assert Wu(1.0)(-6.0, 7) == pytest.approx(-3.0)  # (5 + 7) / 6 = 2
    assert Wu(0.5)(-6.0, 19) == pytest.approx(-3.0)  # sqrt((5 + 19) / 6) = 2
    assert Wu(0.0)(-6.0, 19) == -6.0
    assert Wu()(-6.0, 1) == -6.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Wu(2000.0), r"alpha = 2000.0: a number from 0, .*, to 10 was expected"),
        (lambda: Wu(-0.5), r"alpha = -0.5: a number from 0"),
        (lambda: Wu(math.nan), r"alpha = nan: a number from 0"),
        (lambda: BoundedReward(math.nan), r"reward = nan: 0 or more for each token"),
        (lambda: BoundedReward(math.inf), r"reward = inf: 0 or more for each token"),
    ],
)
def test_what_ranks_nothing_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
    assert math.isfinite(Wu(10.0)(-6.0, 10**6))


@pytest.mark.parametrize("ranking", [LogProbability(), Average(), Wu(), Wu(2.0)], ids=repr)
def test_rankings_rise_with_probability_and_favour_no_length_by_more_than_its_ends(ranking: Ranking) -> None:
    """The beam's bound relies on this: the score at a length between two others lies between their scores."""
    for length in range(1, 30):
        assert ranking(-2.0, length) > ranking(-2.1, length)
        ends = ranking(-2.0, 1), ranking(-2.0, 30)
        assert min(ends) <= ranking(-2.0, length) <= max(ends)


def test_forcing_by_hand() -> None:
    model = Lookup()
    target = Padded(torch.tensor([[4, 5, EOS], [EOS, 0, 0], [3, EOS, 0], [6, 6, EOS]]), torch.tensor([3, 1, 2, 3]))
    for source, (forced, length) in enumerate(zip(force(model, all_of(model), target), (3, 1, 2, 3), strict=True)):
        tokens = tuple(target.values[source, :length].tolist())
        each = [model.log_probs(source, tokens[:n])[token] for n, token in enumerate(tokens)]
        assert forced.tokens == tokens
        assert forced.token_log_probs == pytest.approx(each, abs=1e-9)
        assert forced.log_prob == pytest.approx(sum(each), abs=1e-9)
        best = [max(model.log_probs(source, tokens[:n])[EOS:]) for n in range(length)]  # no padding, no BOS
        assert forced.best_log_probs == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [(torch.bfloat16, torch.float32), (torch.float32, torch.float32), (torch.float64, torch.float64)],
)
def test_a_step_is_at_least_in_float32(narrow: torch.dtype, wide: torch.dtype) -> None:
    model = Lookup()
    model.logits = model.logits.to(narrow)
    log_probs_NV, _ = step(model, torch.full((4,), BOS), model.start(all_of(model)))
    assert log_probs_NV.dtype == wide
    assert log_probs_NV.exp().sum(1).tolist() == pytest.approx([1.0] * 4, abs=1e-6)


@pytest.mark.parametrize("search", [*SEARCHES, Sampling(3, max_length=6), Exact(2, max_length=4)], ids=repr)
def test_unknown_tokens_are_written_if_a_prefix_or_the_user_asks_for_them(search: Any) -> None:
    """Otherwise none is written. All log-probabilities are the model's own."""
    model = Lookup()
    model.logits[:, :, UNK] += 4
    prefix = Padded(torch.tensor([[UNK], [4], [5], [6]]), torch.ones(4, dtype=torch.long))
    for asking in (False, True):
        written = replace(search, unknown=asking)(model, all_of(model), prefix)
        assert written[0][0].tokens[0] == UNK
        assert any(UNK in h.tokens[1:] for found in written for h in found) == asking
        for source, found in enumerate(written):
            for h in found:
                forced = sum(model.log_probs(source, h.tokens[:n])[t] for n, t in enumerate(h.tokens))
                assert h.log_prob == pytest.approx(forced, abs=1e-9)
