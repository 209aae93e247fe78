"""What an allocation is. B sources, K hypotheses of each, V vocabulary, C candidates looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

from torch import Tensor

from transduce.search.follower import Follower
from transduce.types import EOS

S = TypeVar("S")


@dataclass(frozen=True)
class Continuations:
    """The continuations of each source that were looked at: their totals, minus infinity where there is none, the
    hypothesis that each continues, and its token, all [B, C]; which of them are finished [B, C], and where among them
    the next beam is [B, K]. What is neither is pruned. A place of the beam given to an end is left empty."""

    total_BC: Tensor
    origin_BC: Tensor
    token_BC: Tensor
    ended_BC: Tensor
    live_BK: Tensor

    @property
    def live_total_BK(self) -> Tensor:
        """Totals of the next beam, minus infinity at empty places."""
        return self.total_BC.masked_fill(self.token_BC == EOS, float("-inf")).gather(1, self.live_BK)


class Allocation(Follower[S], Protocol[S]):
    """Gives the K places of a beam to the continuations of its hypotheses.

    A continuation's total, in float64, is that of its hypothesis and the score of its token: ``total_BK[b, k] +
    scores_BKV[b, k, v]``. The scores are the search's own: not to be written into. ``first`` says which of
    ``size`` places begin alive: all begin equal, and two of them would find everything twice. ``check`` raises
    ValueError where ``size`` cannot be allocated.
    """

    def check(self, size: int) -> None: ...

    def first(self, size: int) -> list[int]: ...

    def __call__(self, scores_BKV: Tensor, total_BK: Tensor, state: S) -> Continuations: ...
