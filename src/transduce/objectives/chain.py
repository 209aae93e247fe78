"""What training minimises of a chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from transduce.protocols import Chain
from transduce.types import Batch, Loss


@dataclass(frozen=True)
class ChainLikelihood:
    """- log p(y | x) = log Z - s(y) of whole label sequences, Z by the forward recursion (Lafferty et al. 2001).

    Counts each label and the end, as cross-entropy does, so that losses are of one scale.
    """

    def __call__(self, model: Chain, batch: Batch, progress: float = 0.0, carry: Any = None) -> tuple[Loss, Any]:
        trellis = model.trellis(batch.source)
        labels_BT = trellis.own(batch.target.values, batch.target.lengths - 1)
        total = (trellis.log_normaliser - trellis.score(labels_BT)).sum()
        return Loss(total, int(batch.target.lengths.sum())), carry
