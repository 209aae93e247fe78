"""One beam for all hypotheses of a source. B sources, K hypotheses of each, C candidates."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from transduce.compute import choice
from transduce.core.types import EOS
from transduce.search.base import Continuations, Stateless
from transduce.search.largest import largest


@dataclass(frozen=True)
class BestContinuations(Stateless):
    """Keeps the K best continuations of a source that do not end, from all its hypotheses together. A hypothesis ends
    if its EOS is among the K best of all continuations.
    """

    def check(self, size: int) -> None:
        """A no-op, because any size is possible."""

    def first(self, size: int) -> list[int]:
        return [0]

    def __call__(self, scores_BKV: Tensor, total_BK: Tensor, state: None = None) -> Continuations:
        compiled = choice.choose(scores_BKV, total_BK)
        return self.by_operators(scores_BKV, total_BK) if compiled is None else Continuations(*compiled)

    def by_operators(self, scores_BKV: Tensor, total_BK: Tensor) -> Continuations:
        """The choice on every device and for every type of numbers."""
        K = scores_BKV.shape[1]
        # K continuations of a hypothesis that do not end, and its end, are always enough
        value_BKC, token_BKC = largest(scores_BKV, K + 1)
        total_BKC = total_BK.unsqueeze(2) + value_BKC
        C = total_BKC.shape[-1]
        total_BC, place_BC = total_BKC.flatten(1).topk(min(2 * K, K * C))
        token_BC = token_BKC.flatten(1).gather(1, place_BC)
        ends_BC = token_BC == EOS
        live_BK = total_BC.masked_fill(ends_BC, float("-inf")).topk(K).indices
        ended_BC = ends_BC & (total_BC > float("-inf"))
        ended_BC.narrow(1, K, total_BC.shape[1] - K).zero_()
        return Continuations(total_BC, place_BC // C, token_BC, ended_BC, live_BK)
