"""A filter that allows no n-gram twice. N rows, T tokens written so far, G = T - n + 1 n-grams in them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.types import Padded


@dataclass(frozen=True)
class NoRepeat:
    """Forbids every token that would complete an n-gram of ``n`` tokens for the second time in an output (Paulus et al.
    2018, section 2.5).

    All rows are compared with their own earlier tokens in one call, on the model's device.
    """

    n: int = 3

    def __post_init__(self) -> None:
        if self.n < 1:
            raise UserError(f"n = {self.n}: at least 1 token was expected")

    def start(self, source: Padded) -> Tensor:
        return torch.zeros(tree.rows(source), 0, dtype=torch.long, device=tree.leaves(source)[0].device)

    def extend(self, tokens_NT: Tensor, state: Tensor) -> Tensor:
        return torch.cat([state, tokens_NT], 1)

    def __call__(self, scores_NV: Tensor, state: Tensor) -> Tensor:
        written_NT, before = state, self.n - 1
        if written_NT.shape[1] < self.n:
            return scores_NV
        windows_NGn = written_NT.unfold(1, self.n, 1)
        last_N1n = written_NT[:, None, written_NT.shape[1] - before :]
        again_NG = (windows_NGn[:, :, :before] == last_N1n).all(-1)
        token_NG = windows_NGn[:, :, -1]
        bias_NG = torch.zeros_like(again_NG, dtype=scores_NV.dtype).masked_fill_(again_NG, float("-inf"))
        return scores_NV.scatter_add_(1, token_NG, bias_NG)
