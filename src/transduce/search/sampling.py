"""Ancestral sampling, batched: B sources, K samples of each, N = B * K rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from transduce import tree
from transduce.errors import UserError
from transduce.protocols import Autoregressive
from transduce.search import draws
from transduce.search.constraints.base import Held
from transduce.search.filters.base import Filter
from transduce.search.forcing import force
from transduce.search.leaving import room, staying
from transduce.search.sizes import resized
from transduce.search.step import Begun, advance, begin, check_length
from transduce.search.truncation import Truncation
from transduce.types import EOS, Hypothesis, Padded

COLDEST, HOTTEST = 1e-30, 1e30  # beyond them q is greedy search's, or flat; float32 ends not far from there


@dataclass(frozen=True)
class Sampling:
    """``size`` outputs drawn token by token from q, what ``filters`` leave of the model's distribution, its logits
    divided by ``temperature``, then cut by each of ``truncations`` in turn; returns the ``nbest`` most probable
    (default: all).

    What was drawn twice is there twice. ``score`` is log q, ``log_prob`` the model's own. A source draws the same
    whatever is beside it; with another ``seed`` something else. Token number ``max_length`` is EOS.
    """

    size: int = 1
    nbest: int | None = None
    temperature: float = 1.0
    truncations: tuple[Truncation, ...] = ()
    max_length: int = 200
    filters: tuple[Filter[Any], ...] = ()
    seed: int = 1

    def __post_init__(self) -> None:
        check_length(self.max_length)
        if not 1 <= (self.nbest or 1) <= self.size:
            raise UserError(f"nbest = {self.nbest}, size = {self.size}: of n samples come 1 to n hypotheses")
        if not 0 < self.temperature < math.inf:
            raise UserError(
                f"temperature = {self.temperature}: a number above 0 was expected; for its limit 0 take greedy search"
            )

    def __call__(self, model: Autoregressive[Any], source: Any, prefix: Padded | None = None) -> list[list[Hypothesis]]:
        *_, written = self._steps(model, source, prefix)
        return [sorted(found, key=lambda h: -h.score)[: self.nbest] for found in written.hypotheses()]

    def stream(
        self, model: Autoregressive[Any], source: Any, prefix: Padded | None = None
    ) -> Iterator[tuple[int, ...]]:
        """Each token as it is drawn; which of several samples is the best is known when all have ended."""
        if self.size > 1:
            yield self(model, source, prefix)[0][0].tokens
        else:
            yield from (written.hypotheses()[0][0].tokens for written in self._steps(model, source, prefix))

    @torch.inference_mode()
    def _steps(self, model: Autoregressive[Any], source: Any, prefix: Padded | None) -> Iterator[_Written]:
        """What has been drawn after each step; one object, which grows."""
        front, begun = begin(model, source, prefix, self.filters, self.max_length)
        key_N = draws.keys(source, self.seed, self.size)
        samples, written = _Samples.start(len(key_N), self.size, key_N.device), _Written(begun, self.size)
        first = begun.tokens_BT.shape[1]
        for place in range(first, self.max_length):
            following, front = advance(model, self.filters, front, place, last=place == self.max_length - 1)
            if place == first:  # up to here all samples of a source are one
                following, front = tree.repeat((following, front), self.size)
            q_NV = self.distribution(following.scores_NV)
            token_N = drawn(q_NV, draws.uniform(key_N[samples.row_N], place))
            score_N = q_NV.gather(1, token_N[:, None])[:, 0].double().log()
            written.add(samples, token_N, following.log_prob(token_N), score_N)
            yield written
            rows_N, sources_B, samples = samples.going(token_N != EOS)
            if not len(rows_N):
                break
            if len(rows_N) < len(token_N):
                token_N, front = token_N[rows_N], tree.select(front, rows_N, sources_B)
            front = front.write(token_N[:, None], self.filters)

    def distribution(self, scores_NV: Tensor) -> Tensor:
        """q [N, V]: what is drawn from, given logits."""
        temperature = min(max(self.temperature, COLDEST), HOTTEST)
        # from the greatest on, lest a small temperature leave the range of numbers
        q_NV = ((scores_NV - scores_NV.amax(1, keepdim=True)) / temperature).softmax(1)
        for truncation in self.truncations:
            q_NV = q_NV.masked_fill(q_NV < truncation(q_NV), 0.0)
            q_NV = q_NV / q_NV.sum(1, keepdim=True)
        return q_NV

    def force(self, model: Autoregressive[Any], source: Any, target: Padded) -> list[Hypothesis]:
        return force(model, source, target)

    def constrained(self, held: Held) -> Sampling:
        held.check_nothing_required(type(self).__name__)
        return replace(self, filters=held.filters(self.filters, self.max_length))

    def resized(self, size: int | None = None, nbest: int | None = None) -> Sampling:
        return resized(self, size, nbest)


def drawn(q_NV: Tensor, quantile_N: Tensor) -> Tensor:
    """[N]: the token at each quantile of the cumulative distribution; none whose probability is 0."""
    sums_NV = q_NV.cumsum(1, dtype=torch.float64)
    return torch.searchsorted(sums_NV, quantile_N[:, None] * sums_NV[:, -1:], right=True)[:, 0]


@dataclass(frozen=True)
class _Samples:
    """Which sample each row is, and which rows have finished (``real_N`` False): they leave as ``staying`` says, and as
    many of every source, as what a source's samples share is kept once for a number of rows."""

    row_N: Tensor
    real_N: Tensor
    size: int

    @staticmethod
    def start(rows: int, size: int, device: torch.device) -> _Samples:
        return _Samples(torch.arange(rows, device=device), torch.ones(rows, dtype=torch.bool, device=device), size)

    def going(self, going_N: Tensor) -> tuple[Tensor, Tensor, _Samples]:
        """The rows that stay, the sources that do, and the samples they are then."""
        going_BK = (going_N & self.real_N).view(-1, self.size)
        counts_B = going_BK.sum(1)
        sources_B, size = staying(counts_B > 0), min(self.size, room(int(counts_B.max())))
        if size * len(sources_B) == len(going_N):
            return torch.arange(len(going_N)), sources_B, replace(self, real_N=going_BK.view(-1))
        place_BK = going_BK[sources_B].byte().argsort(dim=1, descending=True, stable=True)[:, :size]
        rows_N = (sources_B[:, None] * self.size + place_BK).reshape(-1)
        return rows_N, sources_B, _Samples(self.row_N[rows_N], going_BK.view(-1)[rows_N], size)


class _Written:
    """What has been drawn, step by step; sorted out in the end."""

    def __init__(self, begun: Begun, size: int) -> None:
        self.begun = begun
        self.size = size
        self.steps: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []

    def add(self, samples: _Samples, token_N: Tensor, log_prob_N: Tensor, score_N: Tensor) -> None:
        real_N = samples.real_N
        self.steps.append((samples.row_N[real_N], token_N[real_N], log_prob_N[real_N], score_N[real_N]))

    def hypotheses(self) -> list[list[Hypothesis]]:
        """Those of each source."""
        row_M, *columns = (torch.cat(column) for column in zip(*self.steps, strict=True))
        order_M, lengths = row_M.argsort(stable=True), row_M.bincount().tolist()
        rows = zip(*(torch.split(column_M[order_M], lengths) for column_M in columns), strict=True)
        beginnings = zip(self.begun.tokens_BT.tolist(), self.begun.log_probs_BT.tolist(), strict=True)
        return [
            [self._hypothesis(tokens, log_probs, *next(rows)) for _ in range(self.size)]
            for tokens, log_probs in beginnings
        ]

    @staticmethod
    def _hypothesis(
        tokens: list[int], log_probs: list[float], token_T: Tensor, log_prob_T: Tensor, score_T: Tensor
    ) -> Hypothesis:
        each = (*log_probs, *log_prob_T.tolist())
        return Hypothesis((*tokens, *token_T.tolist()), sum(each), float(score_T.sum()), each)
