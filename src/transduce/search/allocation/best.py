"""One beam for all hypotheses of a source. B sources, K hypotheses of each, C candidates."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.search.base import Continuations, Stateless
from transduce.search.step import largest
from transduce.types import EOS


@dataclass(frozen=True)
class BestContinuations(Stateless):
    """Keeps the K best continuations of a source that do not end, whichever hypotheses they continue. A hypothesis ends
    if its EOS is among the K best of all continuations.
    """

    def check(self, size: int) -> None:
        """Does nothing: any size is possible."""

    def first(self, size: int) -> list[int]:
        return [0]

    def __call__(self, scores_BKV: Tensor, total_BK: Tensor, state: None = None) -> Continuations:
        B, K, _ = scores_BKV.shape
        # the K best continuations of a hypothesis that do not end, and its end: more are never needed
        value_BKC, token_BKC = largest(scores_BKV, K + 1)
        total_BKC = total_BK[:, :, None] + value_BKC
        C = total_BKC.shape[-1]
        total_BC, place_BC = total_BKC.view(B, -1).topk(min(2 * K, K * C))
        token_BC = token_BKC.view(B, -1).gather(1, place_BC)
        ends_BC = token_BC == EOS
        among_BC = torch.arange(len(total_BC[0]), device=total_BC.device) < K
        live_BK = total_BC.masked_fill(ends_BC, float("-inf")).topk(K).indices
        return Continuations(total_BC, place_BC // C, token_BC, ends_BC & among_BC & total_BC.isfinite(), live_BK)
