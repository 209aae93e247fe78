"""Beam search, batched: B sources, K hypotheses of each, N = B * K rows, T tokens, C candidate continuations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor

from transduce import tree
from transduce.errors import UserError
from transduce.protocols import Autoregressive
from transduce.search.allocation.best import BestContinuations
from transduce.search.base import Allocation, Continuations, Expansion, Filter, Observer, Ranking, resized
from transduce.search.constraints.base import BatchConstraints
from transduce.search.forcing import force
from transduce.search.ranking import Average
from transduce.search.step import Begun, Next, advance, begin, check_length, remaining, repeated, source_lengths
from transduce.types import Hypothesis, Padded

NEVER = float("-inf")


@dataclass(frozen=True)
class Beam:
    """Beam search: keeps the ``size`` most probable prefixes, extends them step by step, and returns the ``nbest``
    finished hypotheses with the highest ``ranking``.

    ``filters`` forbid or penalise tokens. ``allocation`` chooses the continuations that stay in the beam. With the
    default, an output ends if its EOS is among the ``size`` best continuations of its source. A source is finished as
    soon as no active hypothesis can overtake its ``nbest`` best finished ones. Once ``size`` hypotheses have finished,
    active ones are compared as if they ended now. Token number ``max_length`` is always EOS. A beam of size 1 is greedy
    search. ``observer`` receives each step.
    """

    size: int = 5
    nbest: int = 1
    max_length: int = 200
    ranking: Ranking = field(default_factory=Average)
    filters: tuple[Filter[Any], ...] = ()
    allocation: Allocation[Any] = field(default_factory=BestContinuations)
    observer: Observer | None = None

    def __post_init__(self) -> None:
        check_length(self.max_length)
        if not 1 <= self.nbest <= self.size:
            raise UserError(f"nbest = {self.nbest}, size = {self.size}: a beam of n has room for 1 to n hypotheses")
        self.allocation.check(self.size)

    def __call__(self, model: Autoregressive[Any], source: Any, prefix: Padded | None = None) -> list[list[Hypothesis]]:
        finished = _Finished(self, source_lengths(source))
        for _ in self._steps(model, source, prefix, finished):
            pass
        return finished.best()

    def stream(
        self, model: Autoregressive[Any], source: Any, prefix: Padded | None = None
    ) -> Iterator[tuple[int, ...]]:
        """For one source: yields the first tokens on which all hypotheses that may still win agree, after each step; at
        last the best output.
        """
        finished = _Finished(self, source_lengths(source))
        for beam in self._steps(model, source, prefix, finished):
            yield finished.common_prefix(beam)
        yield finished.best()[0][0].tokens

    @torch.inference_mode()
    def _steps(
        self, model: Autoregressive[Any], source: Any, prefix: Padded | None, finished: _Finished
    ) -> Iterator[_Active]:
        """Yields the active hypotheses after each step except the last one, and adds the finished ones of all steps to
        ``finished``.
        """
        followers = (*self.filters, self.allocation)
        front, begun = begin(model, source, prefix, followers, self.max_length)
        length = begun.tokens_BT.shape[1] + 1
        following, front = advance(model, self.filters, front, length - 1, last=length == self.max_length)
        following, front = repeated((following, front), self.size)  # until here a source's hypotheses are the same
        beam = _Active.start(begun, self.size, self.allocation.first(self.size))
        while True:
            scores_BKV = following.scores_NV.view(*beam.total_BK.shape, -1)
            candidates = self.allocation(scores_BKV, beam.total_BK, front.memories[-1])
            log_prob_BC = beam.log_probs(following, candidates)
            if self.observer is not None:
                begins = begun.tokens_BT if beam.length == begun.tokens_BT.shape[1] else None
                self.observer(_shown(beam, Expansion(length, beam.source_B, candidates, log_prob_BC, begins)))
            best_B, ended = _read(beam, candidates)
            finished.add(beam, candidates, log_prob_BC, ended)
            searching_B = [
                searching and not finished.is_finished(source, best, length)
                for searching, source, best in zip(beam.searching_B, beam.source_B, best_B, strict=True)
            ]
            if length == self.max_length or not any(searching_B):
                break
            beam, front = beam.extend(candidates, log_prob_BC, searching_B, front)
            front = front.write(beam.tokens_BKT[:, :, -1].reshape(-1, 1), followers)
            yield beam
            length += 1
            following, front = advance(model, self.filters, front, length - 1, last=length == self.max_length)

    def force(self, model: Autoregressive[Any], source: Any, target: Padded) -> list[Hypothesis]:
        return force(model, source, target)

    def resized(self, size: int | None = None, nbest: int | None = None) -> Beam:
        return resized(self, size, nbest)

    def constrained(self, constraints: BatchConstraints) -> Beam:
        filters = constraints.filters(self.filters, self.max_length)
        return replace(self, filters=filters, allocation=constraints.allocation(self.allocation, self.max_length))


def _read(beam: _Active, candidates: Continuations) -> tuple[list[float], list[tuple[int, int, float]]]:
    """Reads the results of a step from the device, in one copy.

    Returns the best active total of each row, a list of length B, and the ended candidates as (row b, candidate c,
    total). A finished source that is still in the batch has no ended candidates.
    """
    ended_BC = candidates.total_BC.masked_fill(~candidates.ended_BC, NEVER)
    rows = torch.cat([candidates.live_total_BK.amax(1, keepdim=True), ended_BC], 1).tolist()
    ended = [
        (b, c, total)
        for b, (searching, (_, *totals)) in enumerate(zip(beam.searching_B, rows, strict=True))
        if searching and max(totals) > NEVER
        for c, total in enumerate(totals)
        if total > NEVER
    ]
    return [best for best, *_ in rows], ended


class _Finished:
    """The finished hypotheses of each source. It decides when a source is finished."""

    def __init__(self, search: Beam, source_lengths: list[int]) -> None:
        self.search = search
        self.source_lengths = source_lengths
        self.found: list[dict[tuple[int, ...], Hypothesis]] = [{} for _ in source_lengths]

    def is_finished(self, source: int, best_active: float, length: int) -> bool:
        """True if the search gives up the active hypotheses of a source: none may still enter its n-best list.

        All active ones have ``length`` tokens, and the best has the total ``best_active``. It is not enough that
        ``size`` hypotheses have finished. If a model is certain, all continuations except one are improbable. Some of
        these end, and fill the beam before the certain one ends.
        """
        if best_active == NEVER:  # no hypothesis is active
            return True
        found, search = self.found[source], self.search
        if len(found) < search.nbest:
            return False
        worst = sorted((h.score for h in found.values()), reverse=True)[search.nbest - 1]
        # Totals only fall. The bound is the score of a hypothesis that ends now with this total, or as late as it can.
        ends = (length,) if len(found) >= search.size else (length + 1, search.max_length)
        return max(search.ranking(best_active, end, self.source_lengths[source]) for end in ends) <= worst

    def add(
        self,
        beam: _Active,
        candidates: Continuations,
        log_prob_BC: Tensor,
        ended: Sequence[tuple[int, int, float]],
    ) -> None:
        """Adds the candidates that end at this step, given as (row b, candidate c, total). If two of one source have
        the same tokens, from two groups of a beam, the better one stays.
        """
        if not ended:
            return
        b_M, c_M = torch.tensor([each[:2] for each in ended], device=log_prob_BC.device).unbind(1)
        origin_M = candidates.origin_BC[b_M, c_M]
        columns = (
            beam.tokens_BKT[b_M, origin_M],
            beam.log_probs_BKT[b_M, origin_M],
            candidates.token_BC[b_M, c_M],
            log_prob_BC[b_M, c_M],
        )
        every = zip(ended, *(column.tolist() for column in columns), strict=True)
        for (b, _, total), before, log_probs_before, token, log_prob in every:
            source, tokens, each = beam.source_B[b], (*before, token), (*log_probs_before, log_prob)
            score = self.search.ranking(total, len(tokens), self.source_lengths[source])
            other = self.found[source].get(tokens)
            if other is None or other.score < score:
                self.found[source][tokens] = Hypothesis(tokens, sum(each), score, each)

    def common_prefix(self, beam: _Active) -> tuple[int, ...]:
        """The tokens that the best finished hypothesis, if there is one, and all active hypotheses of the first source
        have in common, from the start. For streaming, which has one source.
        """
        rows = [tuple(tokens) for tokens in beam.tokens_BKT[0][beam.total_BK[0].isfinite()].tolist()]
        rows += [hypotheses[0].tokens for hypotheses in self.best()[:1] if hypotheses]
        places = zip(*rows, strict=False)
        return tuple(tokens[0] for tokens in takewhile(lambda tokens: len(set(tokens)) == 1, places))

    def best(self) -> list[list[Hypothesis]]:
        return [sorted(found.values(), key=lambda h: -h.score)[: self.search.nbest] for found in self.found]


@dataclass(frozen=True)
class _Active:
    """The active hypotheses: their totals [B, K] (sums of scores after the filters), minus infinity at empty places,
    and the tokens and their log-probabilities [B, K, T]. ``source_B`` is the source of each row of the batch.
    ``searching_B`` is False for a finished source that is still in the batch.
    """

    total_BK: Tensor
    tokens_BKT: Tensor
    log_probs_BKT: Tensor
    source_B: list[int]
    searching_B: list[bool]

    @staticmethod
    def start(begun: Begun, size: int, first: list[int]) -> _Active:
        B, K = len(begun.tokens_BT), size
        total_BK = torch.full((B, K), NEVER, dtype=torch.float64, device=begun.tokens_BT.device)
        total_BK[:, first] = begun.log_probs_BT.sum(-1, keepdim=True)
        tokens_BKT, log_probs_BKT = (
            each_BT[:, None].expand(-1, K, -1) for each_BT in (begun.tokens_BT, begun.log_probs_BT)
        )
        return _Active(total_BK, tokens_BKT, log_probs_BKT, list(range(B)), [True] * B)

    @property
    def length(self) -> int:
        return self.tokens_BKT.shape[2]

    def log_probs(self, following: Next, candidates: Continuations) -> Tensor:
        """[B, C]: for each candidate, the model's log-probability of its token after its own hypothesis, in float64."""
        log_probs_NV = following.log_probs_NV
        place_BC = candidates.origin_BC * log_probs_NV.shape[1] + candidates.token_BC
        return log_probs_NV.view(len(place_BC), -1).gather(1, place_BC).double()

    def extend(
        self, candidates: Continuations, log_prob_BC: Tensor, searching_B: list[bool], front: Any
    ) -> tuple[_Active, Any]:
        """The hypotheses of the next step, one token longer, and the rows of ``front`` that they continue. Finished
        sources leave the batch when ``step.remaining`` says so.
        """
        B, K = self.total_BK.shape
        stay = remaining(searching_B)
        stay_B = torch.tensor(stay, device=self.total_BK.device)
        if len(stay) < B:
            candidates, log_prob_BC = tree.select((candidates, log_prob_BC), stay_B)
        origin_BK, token_BK, log_prob_BK = (
            whole_BC.gather(1, candidates.live_BK)
            for whole_BC in (candidates.origin_BC, candidates.token_BC, log_prob_BC)
        )
        rows_N = (stay_B[:, None] * K + origin_BK).reshape(-1)
        front = tree.reorder(front, rows_N) if len(stay) == B else tree.select(front, rows_N, stay_B)
        tokens_BKT, log_probs_BKT = (
            torch.cat([kept_BKT.flatten(0, 1)[rows_N].view(*origin_BK.shape, -1), new_BK[:, :, None]], 2)
            for kept_BKT, new_BK in ((self.tokens_BKT, token_BK), (self.log_probs_BKT, log_prob_BK))
        )
        sources, searching = [self.source_B[b] for b in stay], [searching_B[b] for b in stay]
        return _Active(candidates.live_total_BK, tokens_BKT, log_probs_BKT, sources, searching), front


def _shown(beam: _Active, expansion: Expansion) -> Expansion:
    """The expansion without finished sources, for the observer."""
    rows = [b for b, searching in enumerate(beam.searching_B) if searching]
    keep_B = torch.tensor(rows, device=beam.total_BK.device)
    candidates, log_prob_BC = tree.select((expansion.candidates, expansion.log_prob_BC), keep_B)
    sources = [beam.source_B[b] for b in rows]
    return replace(expansion, source_B=sources, candidates=candidates, log_prob_BC=log_prob_BC)
