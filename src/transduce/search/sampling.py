"""Ancestral sampling, batched: B sources, K samples of each, N = B * K rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import Autoregressive, S
from transduce.core.types import EOS, Hypothesis, Padded
from transduce.search import random_numbers
from transduce.search.base import Filters, Truncation, resized
from transduce.search.constraints.base import BatchConstraints
from transduce.search.forcing import force
from transduce.search.front import Begun, batch_size, begin, remaining, repeated
from transduce.search.limits import check_length
from transduce.search.next_tokens import advance

COLDEST, HOTTEST = 1e-30, 1e30  # beyond them, q is greedy or flat, and numbers come close to the limits of float32


@dataclass(frozen=True)
class Sampling:
    """Draws ``size`` outputs, token by token, and returns the ``nbest`` with the highest ``score`` (default: all).

    Each token is drawn from a distribution q. It is the model's distribution after ``filters``, with logits divided by
    ``temperature``. Then each of ``truncations`` cuts it in turn, and it is renormalised. An output that is drawn twice
    is returned twice. ``score`` is log q of the output, and ``log_prob`` is log p of the model. The samples of a source
    depend on ``seed`` and on the source, not on the batch. Token number ``max_length`` is always EOS. An
    output has no ``<unk>``, unless ``unknown`` is True.
    """

    ends_freely: ClassVar[bool] = True

    size: int = 1
    nbest: int | None = None
    temperature: float = 1.0
    truncations: tuple[Truncation, ...] = ()
    max_length: int = 200
    filters: Filters = ()
    seed: int = 1
    unknown: bool = False

    def __post_init__(self) -> None:
        check_length(self.max_length)
        if not 1 <= (self.nbest or 1) <= self.size:
            raise UserError(f"nbest = {self.nbest}, size = {self.size}: of n samples come 1 to n hypotheses")
        if not 0 < self.temperature < math.inf:
            raise UserError(
                f"temperature = {self.temperature}: a number above 0 was expected; for its limit 0 take greedy search"
            )

    def __call__(
        self, model: Autoregressive[S], source: Padded, prefix: Padded | None = None
    ) -> list[list[Hypothesis]]:
        *_, written = self._steps(model, source, prefix)
        return [sorted(found, key=lambda h: -h.score)[: self.nbest] for found in written.hypotheses()]

    def stream(
        self, model: Autoregressive[S], source: Padded, prefix: Padded | None = None
    ) -> Iterator[tuple[int, ...]]:
        """Yields the output of one source so far, after each token that is drawn. If ``size`` > 1, it yields only the
        best sample, when all samples have ended.
        """
        if self.size > 1:
            yield self(model, source, prefix)[0][0].tokens
        else:
            yield from (written.hypotheses()[0][0].tokens for written in self._steps(model, source, prefix))

    @torch.inference_mode()
    def _steps(self, model: Autoregressive[S], source: Padded, prefix: Padded | None) -> Iterator[_Written]:
        """Yields the samples so far after each step. It is always the same object, which grows."""
        front, begun = begin(model, source, prefix, self.filters, self.max_length)
        place = begun.tokens_BT.shape[1]
        following, front = advance(model, self.filters, front, [place], self.max_length, self.unknown)
        following, front = repeated((following, front), self.size)  # until here all samples of a source are the same
        key_N = random_numbers.keys(source, self.seed, self.size)
        samples, written = _Samples.start(len(key_N), self.size, key_N.device), _Written(begun, self.size)
        while True:
            q_NV = self.distribution(following.scores_NV)
            token_N = drawn(q_NV, random_numbers.uniform(key_N[samples.row_N], place))
            score_N = q_NV.gather(1, token_N[:, None])[:, 0].double().log()
            written.add(samples, token_N, following.log_prob(token_N), score_N)
            yield written
            rows_N, sources_B, samples = samples.remaining(token_N != EOS)
            if not len(rows_N):
                break
            if len(rows_N) < len(token_N):
                token_N, front = token_N[rows_N], tree.select(front, rows_N, sources_B)
            front = front.write(token_N[:, None], self.filters)
            place += 1
            following, front = advance(model, self.filters, front, [place], self.max_length, self.unknown)

    def distribution(self, scores_NV: Tensor) -> Tensor:
        """The distribution q [N, V] to draw from, given log-probabilities [N, V] after the filters."""
        temperature = min(max(self.temperature, COLDEST), HOTTEST)
        # subtract the largest score, so that a small temperature does not cause an overflow
        q_NV = ((scores_NV - scores_NV.amax(1, keepdim=True)) / temperature).softmax(1)
        for truncation in self.truncations:
            q_NV = q_NV.masked_fill(q_NV < truncation(q_NV), 0.0)
            q_NV = q_NV / q_NV.sum(1, keepdim=True)
        return q_NV

    def force(self, model: Autoregressive[S], source: Padded, target: Padded) -> list[Hypothesis]:
        return force(model, source, target)

    def constrained(self, constraints: BatchConstraints) -> Sampling:
        constraints.check_nothing_required(type(self).__name__)
        return replace(self, filters=constraints.filters(self.filters, self.max_length))

    def resized(self, size: int | None = None, nbest: int | None = None) -> Sampling:
        return resized(self, size, nbest)


def drawn(q_NV: Tensor, quantile_N: Tensor) -> Tensor:
    """The token [N] at which the cumulative distribution of each row of ``q_NV`` passes ``quantile_N``, in [0, 1). A
    token of probability 0 is never drawn.
    """
    sums_NV = q_NV.cumsum(1, dtype=torch.float64)
    return torch.searchsorted(sums_NV, quantile_N[:, None] * sums_NV[:, -1:], right=True)[:, 0]


@dataclass(frozen=True)
class _Samples:
    """The rows of the batch: the index of each row among all B * K samples, and whether it is still active.

    Every source keeps the same number ``size`` of rows, because its samples share one row of ``tree.Shared`` leaves.
    Finished rows leave by the rule of ``front.remaining``.
    """

    row_N: Tensor
    active_N: Tensor
    size: int

    @staticmethod
    def start(rows: int, size: int, device: torch.device) -> _Samples:
        return _Samples(torch.arange(rows, device=device), torch.ones(rows, dtype=torch.bool, device=device), size)

    def remaining(self, going_N: Tensor) -> tuple[Tensor, Tensor, _Samples]:
        """Returns the rows that stay in the batch, the sources that stay (by their indices in the batch), and the
        ``_Samples`` of the rows that stay. ``going_N`` is False for rows that have written EOS. If no row is active,
        the first two are empty.
        """
        active_BK = (going_N & self.active_N).view(-1, self.size)
        counts = active_BK.sum(1).tolist()  # a step reads nothing else from the device
        device = going_N.device
        if not any(counts):
            nothing = torch.arange(0, device=device)
            return nothing, nothing, self
        sources, size = remaining([count > 0 for count in counts]), min(self.size, batch_size(max(counts)))
        sources_B = torch.tensor(sources, device=device)
        if size * len(sources) == len(going_N):
            return torch.arange(len(going_N), device=device), sources_B, replace(self, active_N=active_BK.view(-1))
        place_BK = active_BK[sources_B].byte().argsort(dim=1, descending=True, stable=True)[:, :size]
        rows_N = (sources_B[:, None] * self.size + place_BK).reshape(-1)
        return rows_N, sources_B, _Samples(self.row_N[rows_N], active_BK.view(-1)[rows_N], size)


class _Written:
    """The tokens drawn so far, step by step. ``hypotheses`` sorts them by sample."""

    def __init__(self, begun: Begun, size: int) -> None:
        self.begun = begun
        self.size = size
        self.steps: list[tuple[Tensor, Tensor, Tensor, Tensor, Tensor]] = []

    def add(self, samples: _Samples, token_N: Tensor, log_prob_N: Tensor, score_N: Tensor) -> None:
        self.steps.append((samples.active_N, samples.row_N, token_N, log_prob_N, score_N))

    def hypotheses(self) -> list[list[Hypothesis]]:
        """The samples of each source so far, in the order of their keys."""
        active_M, row_M, *columns = (torch.cat(column) for column in zip(*self.steps, strict=True))
        row_M = row_M[active_M]
        order_M, lengths = row_M.argsort(stable=True), row_M.bincount().tolist()
        rows = zip(*(torch.split(column_M[active_M][order_M], lengths) for column_M in columns), strict=True)
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
