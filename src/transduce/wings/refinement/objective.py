"""The objective of mask-predict. B rows, T positions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.core import tree
from transduce.core.protocols import Carry, S
from transduce.core.types import BOS, Batch, Loss, real_mask
from transduce.objectives.cross_entropy import ParallelCrossEntropy, check_smoothing, cross_entropy
from transduce.wings.refinement.base import Refining


@dataclass(frozen=True)
class MaskedTargets:
    """The objective of conditional masked language models (Ghazvininejad et al. 2019, section 3.2): cross-entropy of
    hidden words of the target, given the others, and of its length.

    For each target of n words the number of hidden words is drawn from 1 to n, all equally probable, and then the
    places. The objective "cross-entropy" explains ``smoothing``; the length has none. Validation hides all words, so
    its loss is that of "parallel-cross-entropy". Reports ``nll``, the sum without smoothing, and ``length``.
    """

    smoothing: float = 0.0

    def __post_init__(self) -> None:
        check_smoothing(self.smoothing)

    def __call__(
        self, model: Refining[S], batch: Batch, progress: float = 0.0, carry: Carry = None
    ) -> tuple[Loss, Carry]:
        if not model.training:
            return ParallelCrossEntropy(self.smoothing)(model, batch, progress, carry)
        lengths_B = batch.target.lengths - 1
        words_BT = batch.target.values[:, : max(1, int(lengths_B.max()))]
        hidden_BT = drawn(lengths_B, words_BT.shape[1])
        state = model.observe(model.start(batch.source), words_BT.masked_fill(hidden_BT, BOS))
        emission = model.emit(state, lengths_B)
        features = tree.map(lambda leaf: leaf[hidden_BT], emission.output)
        words, nll = cross_entropy(model, features, words_BT[hidden_BT], self.smoothing)
        length = -emission.end_log_probs.sum()
        parts = {"nll": nll + length.detach(), "length": length.detach()}
        return Loss(words + length, int(hidden_BT.sum()) + len(lengths_B), parts), carry


def drawn(lengths_B: Tensor, T: int) -> Tensor:
    """A random mask [B, T] of the hidden words: 1 to n of the n words of each row. An empty row has none."""
    real_BT = real_mask(lengths_B, T)
    count_B = 1 + (torch.rand(lengths_B.shape, device=lengths_B.device) * lengths_B).long()
    return lowest(torch.rand(real_BT.shape, device=lengths_B.device), real_BT, count_B)


def lowest(value_BT: Tensor, real_BT: Tensor, count_B: Tensor) -> Tensor:
    """The mask [B, T] of the ``count_B`` real positions with the lowest values of each row. Of equal values the first
    positions count.
    """
    order_BT = value_BT.masked_fill(~real_BT, float("inf")).argsort(dim=1, stable=True)
    rank_BT = order_BT.argsort(1)
    return (rank_BT < count_B[:, None]) & real_BT
