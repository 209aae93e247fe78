"""Beam search, batched: B sources, K hypotheses of each, N = B * K rows, C candidates looked at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor

from transduce import tree
from transduce.errors import UserError
from transduce.protocols import Autoregressive
from transduce.search.allocation.base import Allocation, Continuations
from transduce.search.allocation.topk import TopK
from transduce.search.constraints.base import Held
from transduce.search.filters.base import Filter
from transduce.search.forcing import force
from transduce.search.leaving import staying
from transduce.search.observer import Expansion, Observer
from transduce.search.ranking import Average, Ranking
from transduce.search.sizes import resized
from transduce.search.step import Begun, Next, advance, begin, check_length, source_lengths
from transduce.types import Hypothesis, Padded


@dataclass(frozen=True)
class Beam:
    """The ``size`` most probable prefixes, extended step by step; returns the ``nbest`` finished ones by ``ranking``.

    ``filters`` say what may be written, ``allocation`` which continuations live on. With the usual one, an end counts
    when it is among the ``size`` best continuations. A source is done when none in the beam can still overtake the
    ``nbest`` best finished ones or, once ``size`` have finished, none is better as it stands; whatever is unfinished
    after ``max_length`` - 1 tokens is ended there. A beam of one is greedy search. ``observer`` is shown each step.
    """

    size: int = 5
    nbest: int = 1
    max_length: int = 200
    ranking: Ranking = field(default_factory=Average)
    filters: tuple[Filter[Any], ...] = ()
    allocation: Allocation[Any] = field(default_factory=TopK)
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
        """What all hypotheses that may yet win agree on."""
        finished = _Finished(self, source_lengths(source))
        for beam in self._steps(model, source, prefix, finished):
            yield finished.agreed(beam)
        yield finished.best()[0][0].tokens

    @torch.inference_mode()
    def _steps(
        self, model: Autoregressive[Any], source: Any, prefix: Padded | None, finished: _Finished
    ) -> Iterator[_Prefixes]:
        """The living hypotheses after each step, while ``finished`` fills."""
        followers = (*self.filters, self.allocation)
        front, begun = begin(model, source, prefix, followers, self.max_length)
        beam = _Prefixes.start(begun, self.size, self.allocation.first(self.size))
        for length in range(beam.length + 1, self.max_length + 1):
            following, front = advance(model, self.filters, front, length - 1, last=length == self.max_length)
            if length == begun.tokens_BT.shape[1] + 1:  # up to here all hypotheses of a source are one
                following, front = tree.repeat((following, front), self.size)
            scores_BKV = following.scores_NV.view(*beam.total_BK.shape, -1)
            candidates = self.allocation(scores_BKV, beam.total_BK, front.memories[-1])
            log_prob_BC = beam.log_probs(following, candidates)
            if self.observer is not None:
                begins = begun.tokens_BT if length == begun.tokens_BT.shape[1] + 1 else None
                self.observer(_shown(beam, Expansion(length, beam.source_B, candidates, log_prob_BC, begins)))
            finished.collect(beam, candidates, log_prob_BC)
            going_B = finished.going(beam, candidates)
            if length == self.max_length or not any(going_B):
                break
            beam, rows_N, keep_B = beam.extend(candidates, log_prob_BC, going_B)
            whole = len(keep_B) == len(candidates.total_BC)
            front = tree.reorder(front, rows_N) if whole else tree.select(front, rows_N, keep_B)
            front = front.write(beam.tokens_BKT[:, :, -1].reshape(-1, 1), followers)
            yield beam

    def force(self, model: Autoregressive[Any], source: Any, target: Padded) -> list[Hypothesis]:
        return force(model, source, target)

    def resized(self, size: int | None = None, nbest: int | None = None) -> Beam:
        return resized(self, size, nbest)

    def constrained(self, held: Held) -> Beam:
        filters = held.filters(self.filters, self.max_length)
        return replace(self, filters=filters, allocation=held.allocation(self.allocation, self.max_length))


class _Finished:
    """The finished hypotheses of each source, and whether there may be better ones."""

    def __init__(self, search: Beam, source_lengths: list[int]) -> None:
        self.search = search
        self.source_lengths = source_lengths
        self.found: list[dict[tuple[int, ...], Hypothesis]] = [{} for _ in source_lengths]

    def collect(self, beam: _Prefixes, candidates: Continuations, log_prob_BC: Tensor) -> None:
        """Those that end now, written out; of two that are the same, from two groups of a beam, the better."""
        for b, c in candidates.ended_BC.nonzero().tolist():
            if not beam.going_B[b]:
                continue
            k, source = candidates.origin_BC[b, c], beam.source_B[b]
            tokens = (*beam.tokens_BKT[b, k].tolist(), int(candidates.token_BC[b, c]))
            each = (*beam.log_probs_BKT[b, k].tolist(), float(log_prob_BC[b, c]))
            score = self.search.ranking(float(candidates.total_BC[b, c]), len(tokens), self.source_lengths[source])
            other = self.found[source].get(tokens)
            if other is None or other.score < score:
                self.found[source][tokens] = Hypothesis(tokens, sum(each), score, each)

    def going(self, beam: _Prefixes, candidates: Continuations) -> list[bool]:
        """Of each row b, whether its search goes on."""
        best_B = candidates.live_total_BK.amax(-1).tolist()
        rows = zip(beam.going_B, beam.source_B, best_B, strict=True)
        return [going and self._hopeful(source, total, beam.length + 1) for going, source, total in rows]

    def _hopeful(self, source: int, total: float, length: int) -> bool:
        """Whether living prefixes of ``length`` tokens, the best of such a total, can still matter.

        That ``size`` have finished is no reason to stop by itself: where a model is sure, all but one of the best
        continuations are improbable, some of these end, and have filled the beam before the sure one ends.
        """
        if total == float("-inf"):  # none lives
            return False
        found, search = self.found[source], self.search
        if len(found) < search.nbest:
            return True
        worst = sorted((h.score for h in found.values()), reverse=True)[search.nbest - 1]
        # Totals only fall: a prefix scores at most as if it ended well at once, or late.
        ends = (length,) if len(found) >= search.size else (length + 1, search.max_length)
        return max(search.ranking(total, end, self.source_lengths[source]) for end in ends) > worst

    def agreed(self, beam: _Prefixes) -> tuple[int, ...]:
        """What the best finished and all living hypotheses of the first source begin with."""
        rows = [tuple(tokens) for tokens in beam.tokens_BKT[0][beam.total_BK[0].isfinite()].tolist()]
        rows += [hypotheses[0].tokens for hypotheses in self.best()[:1] if hypotheses]
        places = zip(*rows, strict=False)
        return tuple(tokens[0] for tokens in takewhile(lambda tokens: len(set(tokens)) == 1, places))

    def best(self) -> list[list[Hypothesis]]:
        return [sorted(found.values(), key=lambda h: -h.score)[: self.search.nbest] for found in self.found]


@dataclass(frozen=True)
class _Prefixes:
    """The living hypotheses: their scores in sum [B, K], their tokens and the log-probability of each, whose they
    are, and whether that source's search goes on, or has finished and not left yet."""

    total_BK: Tensor
    tokens_BKT: Tensor
    log_probs_BKT: Tensor
    source_B: list[int]
    going_B: list[bool]

    @staticmethod
    def start(begun: Begun, size: int, first: list[int]) -> _Prefixes:
        B, K = len(begun.tokens_BT), size
        total_BK = torch.full((B, K), float("-inf"), dtype=torch.float64, device=begun.tokens_BT.device)
        total_BK[:, first] = begun.log_probs_BT.sum(-1, keepdim=True)
        tokens_BKT, log_probs_BKT = (
            each_BT[:, None].expand(-1, K, -1) for each_BT in (begun.tokens_BT, begun.log_probs_BT)
        )
        return _Prefixes(total_BK, tokens_BKT, log_probs_BKT, list(range(B)), [True] * B)

    @property
    def length(self) -> int:
        return self.tokens_BKT.shape[2]

    def log_probs(self, following: Next, candidates: Continuations) -> Tensor:
        """[B, C]: the model's log-probability of each candidate's token."""
        log_probs_NV = following.log_probs_NV
        place_BC = candidates.origin_BC * log_probs_NV.shape[1] + candidates.token_BC
        return log_probs_NV.view(len(place_BC), -1).gather(1, place_BC).double()

    def extend(
        self, candidates: Continuations, log_prob_BC: Tensor, going_B: list[bool]
    ) -> tuple[_Prefixes, Tensor, Tensor]:
        """The prefixes of the sources that stay, one token longer; the rows they came from, and those sources."""
        K = self.total_BK.shape[1]
        keep_B = staying(torch.tensor(going_B, device=self.total_BK.device))
        live_BK = candidates.live_BK[keep_B]
        origin_BK, token_BK, log_prob_BK = (
            whole_BC[keep_B].gather(1, live_BK) for whole_BC in (candidates.origin_BC, candidates.token_BC, log_prob_BC)
        )
        rows_N = (keep_B[:, None] * K + origin_BK).reshape(-1)
        tokens_BKT, log_probs_BKT = (
            torch.cat([kept_BKT.flatten(0, 1)[rows_N].view(*origin_BK.shape, -1), new_BK[:, :, None]], 2)
            for kept_BKT, new_BK in ((self.tokens_BKT, token_BK), (self.log_probs_BKT, log_prob_BK))
        )
        kept = keep_B.tolist()
        sources, going = [self.source_B[b] for b in kept], [going_B[b] for b in kept]
        return _Prefixes(candidates.live_total_BK[keep_B], tokens_BKT, log_probs_BKT, sources, going), rows_N, keep_B


def _shown(beam: _Prefixes, expansion: Expansion) -> Expansion:
    """What an observer sees: the sources whose search goes on."""
    rows = [b for b, going in enumerate(beam.going_B) if going]
    keep_B = torch.tensor(rows, device=beam.total_BK.device)
    candidates, log_prob_BC = tree.select((expansion.candidates, expansion.log_prob_BC), keep_B)
    sources = [beam.source_B[b] for b in rows]
    return replace(expansion, source_B=sources, candidates=candidates, log_prob_BC=log_prob_BC)
