"""Learning to think the same of the same words, whatever dropout leaves out.

N real target positions, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from transduce import tree
from transduce.protocols import Autoregressive
from transduce.training.chunks import summed
from transduce.training.forcing import Forcing, TeacherForcing
from transduce.training.objectives import CrossEntropy, check_smoothing, smoothed_cross_entropy
from transduce.types import Batch, Loss


@dataclass(frozen=True)
class RDrop:
    """R-Drop (Liang et al. 2021, eq. 4, halved, so that it is of cross-entropy's size): all pairs of a batch go through
    the model twice, and dropout makes two distributions P and Q of each next word:

    (cross-entropy of P + cross-entropy of Q) / 2 + ``weight`` / 2 (KL(P || Q) + KL(Q || P)) / 2.

    Cross-entropy has its ``smoothing`` and ``forcing``. Reports ``nll``, the mean of both, and ``divergence``, that of
    the two KL. In validation, where there is no dropout, it is cross-entropy.
    """

    smoothing: float = 0.0
    forcing: Forcing = field(default_factory=TeacherForcing)
    weight: float = 5.0

    def __post_init__(self) -> None:
        check_smoothing(self.smoothing)
        if not self.weight >= 0:
            raise ValueError(f"weight = {self.weight}: how much disagreement counts for was expected, 0 or more")

    def __call__(
        self, model: Autoregressive[Any], batch: Batch, progress: float = 0.0, carry: Any = None
    ) -> tuple[Loss, Any]:
        cross_entropy = CrossEntropy(self.smoothing, self.forcing)
        if not model.training:
            return cross_entropy(model, batch, progress, carry)
        twice = tree.map(lambda leaf: torch.cat([leaf, leaf]), (batch.source, batch.target))
        source, target = twice
        state, mask_BT = model.start(source), target.mask
        output, _ = model.extend(cross_entropy.read(model, state, target, progress), state)
        real = tree.map(lambda leaf: leaf[mask_BT], output)
        target_N = target.values[mask_BT][: tree.rows(real) // 2]
        first = tree.map(lambda leaf: leaf.chunk(2)[0], real)
        second = tree.map(lambda leaf: leaf.chunk(2)[1], real)

        def part(first: Any, second: Any, target: Tensor) -> tuple[Tensor, ...]:
            p_NV, q_NV = model.readout(first), model.readout(second)
            (total_p, nll_p), (total_q, nll_q) = (
                smoothed_cross_entropy(logits_NV, target, self.smoothing) for logits_NV in (p_NV, q_NV)
            )
            return (total_p + total_q) / 2, (nll_p + nll_q) / 2, divergence(p_NV, q_NV)

        total, nll, apart = summed(model, part, first, second, target_N)
        parts = {"nll": nll, "divergence": apart.detach()}
        return Loss(total + self.weight / 2 * apart, len(target_N), parts), carry


def divergence(p_NV: Tensor, q_NV: Tensor) -> Tensor:
    """(KL(P || Q) + KL(Q || P)) / 2 of the distributions that two logits are of, summed over N; differentiable."""
    wide = torch.promote_types(p_NV.dtype, torch.float32)
    # what both rule out is 0 times minus infinity
    neither_NV = p_NV.isneginf() & q_NV.isneginf()
    log_p, log_q = (logits_NV.log_softmax(-1, wide).masked_fill(neither_NV, 0) for logits_NV in (p_NV, q_NV))
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum() / 2
