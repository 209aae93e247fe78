"""What a search tells of itself while it searches. B sources, K hypotheses of each, C candidates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from transduce.search.allocation.base import Continuations


@dataclass(frozen=True)
class Expansion:
    """One step of a beam: the continuations it looked at, the log-probability [B, C] of the token of each, and which
    source each of the B rows is; sources that are done have none.

    ``candidates.origin_BC`` counts among the hypotheses that ``candidates.live_BK`` of the step before let live, in
    that order. ``length`` is of the outputs after the step, in tokens. ``begun`` [B, T] in the first step is the part
    of a prefix that all begin with.
    """

    length: int
    source_B: list[int]
    candidates: Continuations
    log_prob_BC: Tensor
    begun_BT: Tensor | None = None


class Observer(Protocol):
    """Is shown each step. The tensors are the search's own, to be read before it returns."""

    def __call__(self, expansion: Expansion) -> None: ...
