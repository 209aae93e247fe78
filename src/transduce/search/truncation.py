"""Truncations cut the improbable tail of the distribution before sampling. ``base.Truncation`` is their contract.

N rows, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.core.errors import UserError


@dataclass(frozen=True)
class TopK:
    """Keeps the ``k`` most probable tokens (Fan et al. 2018), and all tokens as probable as the last of them."""

    k: int = 40

    def __post_init__(self) -> None:
        if self.k < 1:
            raise UserError(f"k = {self.k}: at least one token must stay")

    def __call__(self, p_NV: Tensor) -> Tensor:
        return p_NV.topk(min(self.k, p_NV.shape[1])).values[:, -1:]


@dataclass(frozen=True)
class Nucleus:
    """Keeps the smallest set of most probable tokens whose probabilities sum to at least ``p`` (Holtzman et al. 2020),
    and all tokens as probable as the last of them.
    """

    p: float = 0.95

    def __post_init__(self) -> None:
        if not 0 < self.p <= 1:
            raise UserError(f"p = {self.p}: a probability was expected, above 0 and at most 1")

    def __call__(self, p_NV: Tensor) -> Tensor:
        least_N1, open_N = torch.empty_like(p_NV[:, :1]), torch.arange(len(p_NV), device=p_NV.device)
        k = 0
        while len(open_N):  # most nuclei are small, and sorting the whole vocabulary is slow
            k = min(max(64, 8 * k), p_NV.shape[1])
            best_NK = p_NV[open_N].topk(k).values
            sums_NK = best_NK.cumsum(1, dtype=torch.float64)
            last_N1 = (sums_NK < self.p).sum(1, keepdim=True).clamp(max=k - 1)
            least_N1[open_N] = best_NK.gather(1, last_N1)
            open_N = open_N[(sums_NK[:, -1] < self.p) & (k < p_NV.shape[1])]
        return least_N1


@dataclass(frozen=True)
class Epsilon:
    """Keeps the tokens whose probability is at least ``epsilon``, and always the most probable one (Hewitt et al. 2022;
    0.02 as in Freitag et al. 2023).
    """

    epsilon: float = 0.02

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon < 1:
            raise UserError(f"epsilon = {self.epsilon}: a probability was expected, from 0 to below 1")

    def __call__(self, p_NV: Tensor) -> Tensor:
        return p_NV.amax(1, keepdim=True).clamp(max=self.epsilon)
