"""Ancestral sampling, batched: B sources, K samples of each, N = B * K rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from transduce import tree
from transduce.search import draws
from transduce.search.forcing import force
from transduce.search.step import check_length, first_tokens, forbid_specials, step
from transduce.search.truncation import Truncation
from transduce.types import EOS, Autoregressive, Hypothesis, Padded


@dataclass(frozen=True)
class Sampling:
    """``size`` outputs drawn token by token from q, the model's distribution with its logits divided by
    ``temperature`` and then cut by each of ``truncations`` in turn; returns the ``nbest`` most probable (default: all).

    What was drawn twice is there twice. ``score`` is log q, ``log_prob`` the model's own. A source draws the same
    whatever is beside it; with another ``seed`` something else. Token number ``max_length`` is EOS.
    """

    size: int = 1
    nbest: int | None = None
    temperature: float = 1.0
    truncations: tuple[Truncation, ...] = ()
    max_length: int = 200
    seed: int = 1

    def __post_init__(self) -> None:
        check_length(self.max_length)
        if not 1 <= (self.nbest or 1) <= self.size:
            raise ValueError(f"nbest = {self.nbest}, size = {self.size}: of n samples come 1 to n hypotheses")
        if not 0 < self.temperature < math.inf:
            raise ValueError(
                f"temperature = {self.temperature}: a number above 0 was expected; for its limit 0 take greedy search"
            )

    @torch.inference_mode()
    def __call__(self, model: Autoregressive[Any], source: Any) -> list[list[Hypothesis]]:
        B = tree.rows(source)
        key_N = draws.keys(source, self.seed, self.size)
        samples, written = _Samples.start(B, self.size, key_N.device), _Written(B * self.size)
        following = step(model, first_tokens(B, key_N.device), model.start(source))
        logits_NV, normaliser_N, state = tree.repeat(following, self.size)  # all begin alike
        for length in range(1, self.max_length + 1):
            if length < self.max_length:
                q_NV = self.distribution(logits_NV)
                token_N = drawn(q_NV, draws.uniform(key_N[samples.row_N], length))
                score_N = q_NV.gather(1, token_N[:, None])[:, 0].log()
            else:
                token_N, score_N = torch.full_like(samples.row_N, EOS), torch.zeros_like(normaliser_N)
            log_prob_N = logits_NV.gather(1, token_N[:, None])[:, 0] - normaliser_N
            written.add(samples, token_N, log_prob_N, score_N)
            rows_N, sources_B, samples = samples.going(token_N != EOS)
            if not len(rows_N):
                break
            if len(rows_N) < len(token_N):
                token_N, state = token_N[rows_N], tree.select(state, rows_N, sources_B)
            logits_NV, normaliser_N, state = step(model, token_N, state)
        hypotheses = written.hypotheses()
        of_each = (hypotheses[first : first + self.size] for first in range(0, B * self.size, self.size))
        return [sorted(found, key=lambda h: -h.score)[: self.nbest] for found in of_each]

    def distribution(self, logits_NV: Tensor) -> Tensor:
        """q [N, V]: what is drawn from."""
        allowed_NV = forbid_specials(logits_NV.clone())
        # from the greatest on, lest a small temperature leave the range of numbers
        q_NV = ((allowed_NV - allowed_NV.amax(1, keepdim=True)) / self.temperature).softmax(1)
        for truncation in self.truncations:
            q_NV = q_NV.masked_fill(q_NV < truncation(q_NV), 0.0)
            q_NV = q_NV / q_NV.sum(1, keepdim=True)
        return q_NV

    def force(self, model: Autoregressive[Any], source: Any, target: Padded) -> list[Hypothesis]:
        return force(model, source, target)

    def resized(self, size: int | None = None, nbest: int = 1) -> Sampling:
        return replace(self, size=max(self.size, nbest) if size is None else size, nbest=nbest)


def drawn(q_NV: Tensor, quantile_N: Tensor) -> Tensor:
    """[N]: the token at each quantile of the cumulative distribution; none whose probability is 0."""
    sums_NV = q_NV.cumsum(1, dtype=torch.float64)
    return torch.searchsorted(sums_NV, quantile_N[:, None] * sums_NV[:, -1:], right=True)[:, 0]


@dataclass(frozen=True)
class _Samples:
    """Which sample each row is, and which rows are only there to make as many of every source (``real_N`` False):
    finished samples leave, but what a source's samples share is kept once for a number of rows."""

    row_N: Tensor
    real_N: Tensor
    size: int

    @staticmethod
    def start(B: int, K: int, device: torch.device) -> _Samples:
        return _Samples(torch.arange(B * K, device=device), torch.ones(B * K, dtype=torch.bool, device=device), K)

    def going(self, going_N: Tensor) -> tuple[Tensor, Tensor, _Samples]:
        """The rows that stay, the sources that do, and the samples they are then."""
        going_BK = (going_N & self.real_N).view(-1, self.size)
        counts_B = going_BK.sum(1)
        sources_B, size = counts_B.nonzero()[:, 0], int(counts_B.max())
        if size * len(sources_B) == len(going_N):
            return torch.arange(len(going_N)), sources_B, replace(self, real_N=going_BK.view(-1))
        place_BK = going_BK[sources_B].byte().argsort(dim=1, descending=True, stable=True)[:, :size]
        rows_N = (sources_B[:, None] * self.size + place_BK).reshape(-1)
        return rows_N, sources_B, _Samples(self.row_N[rows_N], going_BK.view(-1)[rows_N], size)


@dataclass
class _Written:
    """What has been drawn, step by step; sorted out in the end."""

    samples: int
    steps: list[tuple[Tensor, Tensor, Tensor, Tensor]] = field(default_factory=list)

    def add(self, samples: _Samples, *columns: Tensor) -> None:
        """Tokens, their log-probabilities and their scores, [N] each."""
        row_N, token_N, log_prob_N, score_N = (column[samples.real_N] for column in (samples.row_N, *columns))
        self.steps.append((row_N, token_N, log_prob_N, score_N))

    def hypotheses(self) -> list[Hypothesis]:
        row, *columns = (torch.cat(column) for column in zip(*self.steps, strict=True))
        order, lengths = row.argsort(stable=True), row.bincount(minlength=self.samples).tolist()
        tokens, log_probs, scores = (torch.split(column[order], lengths) for column in columns)
        return [
            Hypothesis(tuple(y.tolist()), float(each.double().sum()), float(q.double().sum()), tuple(each.tolist()))
            for y, each, q in zip(tokens, log_probs, scores, strict=True)
        ]
