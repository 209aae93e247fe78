"""The best continuations, whichever hypotheses they continue. B sources, K hypotheses of each, C candidates."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.search.allocation.base import Continuations
from transduce.search.follower import Forgetful
from transduce.search.largest import largest
from transduce.types import EOS


@dataclass(frozen=True)
class TopK(Forgetful):
    """The K best that do not end live on; an end counts where it is among the K best of all."""

    def check(self, size: int) -> None:
        """Any size will do."""

    def first(self, size: int) -> list[int]:
        return [0]

    def __call__(self, scores_BKV: Tensor, total_BK: Tensor, state: None = None) -> Continuations:
        B, K, _ = scores_BKV.shape
        # of each hypothesis no more are wanted than its K best that do not end, and the end
        value_BKC, token_BKC = largest(scores_BKV, K + 1)
        total_BKC = total_BK[:, :, None] + value_BKC
        C = total_BKC.shape[-1]
        total_BC, place_BC = total_BKC.view(B, -1).topk(min(2 * K, K * C))
        token_BC = token_BKC.view(B, -1).gather(1, place_BC)
        ends_BC = token_BC == EOS
        among_BC = torch.arange(len(total_BC[0]), device=total_BC.device) < K
        live_BK = total_BC.masked_fill(ends_BC, float("-inf")).topk(K).indices
        return Continuations(total_BC, place_BC // C, token_BC, ends_BC & among_BC & total_BC.isfinite(), live_BK)
