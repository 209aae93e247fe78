"""Consistency under dropout: two passes over a batch should predict the same distributions.

N real target positions, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from transduce.compute.autograd import Context
from transduce.compute.cross_entropy import smoothed_cross_entropy
from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import Autoregressive, Carry, S
from transduce.core.types import Batch, Loss, widened
from transduce.objectives.cross_entropy import CrossEntropy, check_smoothing
from transduce.objectives.forcing import Forcing, TeacherForcing
from transduce.objectives.readout import sum_chunks


@dataclass(frozen=True)
class RDrop:
    """The objective R-Drop: cross-entropy, and a penalty if dropout changes the predictions (Liang et al. 2021, eq. 4).

    The model reads two copies of each batch at once. Dropout differs between the copies, so they give two distributions
    P and Q for each next word. The loss is

    (cross-entropy of P + cross-entropy of Q) / 2 + ``weight`` / 2 * (KL(P || Q) + KL(Q || P)) / 2.

    This is half the paper's loss, so that it has the scale of cross-entropy. The objective "cross-entropy" explains
    ``smoothing`` and ``forcing``. Reports ``nll``, the mean of P's and Q's cross-entropy without smoothing. Also
    reports ``divergence``, the mean of the two KL terms without the weight. Validation has no dropout, and its loss is
    cross-entropy.
    """

    smoothing: float = 0.0
    forcing: Forcing = field(default_factory=TeacherForcing)
    weight: float = 5.0

    def __post_init__(self) -> None:
        check_smoothing(self.smoothing)
        if not self.weight >= 0:
            raise UserError(f"weight = {self.weight}: the weight of the divergence was expected, 0 or more")

    def __call__(
        self, model: Autoregressive[S], batch: Batch, progress: float = 0.0, carry: Carry = None
    ) -> tuple[Loss, Carry]:
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

        def sums(first: object, second: object, target: Tensor) -> tuple[Tensor, ...]:
            p_NV, q_NV = model.readout(first), model.readout(second)
            (total_p, nll_p), (total_q, nll_q) = (
                smoothed_cross_entropy(logits_NV, target, self.smoothing) for logits_NV in (p_NV, q_NV)
            )
            disagreement = divergence(p_NV, q_NV)
            total = (total_p + total_q) / 2 + self.weight / 2 * disagreement
            return total, (nll_p + nll_q) / 2, disagreement

        total, nll, disagreement = sum_chunks(model, sums, first, second, target_N)
        return Loss(total, len(target_N), {"nll": nll, "divergence": disagreement}), carry


def divergence(p_NV: Tensor, q_NV: Tensor) -> Tensor:
    """The sum over N of (KL(P || Q) + KL(Q || P)) / 2, a scalar. P and Q are the distributions with these logits.
    Differentiable in both.
    """
    total: Tensor = _Divergence.apply(p_NV, q_NV)  # type: ignore[no-untyped-call]
    return total


class _Divergence(torch.autograd.Function):
    """The autograd function behind ``divergence``: sum_v (p_v - q_v) d_v / 2, where d = log p - log q.

    The gradient with respect to the logits of P is (p (d - sum_v p_v d_v) + p - q) / 2. The gradient for Q swaps p and
    q and negates d. The forward pass computes both gradients in place. For thousands of words, this takes two fifths of
    autograd's time (docs/log.md).
    """

    @staticmethod
    def forward(ctx: Context, p_NV: Tensor, q_NV: Tensor) -> Tensor:
        wide = widened(p_NV.dtype)
        log_p, log_q = p_NV.log_softmax(-1, wide), q_NV.log_softmax(-1, wide)
        # a word with probability 0 in both gives infinity minus infinity, which is not a number: it becomes 0
        d_NV = (log_p - log_q).nan_to_num_(0.0, torch.inf, -torch.inf)
        p, q = log_p.exp_(), log_q.exp_()
        by_p_N1, by_q_N1 = _row_sums(p, d_NV), _row_sums(q, d_NV)
        gradient_p = (d_NV + (1 - by_p_N1)).mul_(p).sub_(q)
        gradient_q = d_NV.neg_().add_(1 + by_q_N1).mul_(q).sub_(p)
        ctx.save_for_backward(gradient_p.to(p_NV.dtype), gradient_q.to(q_NV.dtype))
        return (by_p_N1 - by_q_N1).sum() / 2

    @staticmethod
    def backward(ctx: Context, grad: Tensor) -> tuple[Tensor, Tensor]:
        gradient_p, gradient_q = ctx.saved_tensors
        return gradient_p.mul_(grad / 2), gradient_q.mul_(grad / 2)


def _row_sums(a_NV: Tensor, b_NV: Tensor) -> Tensor:
    """The sums of a * b over V [N, 1], computed as inner products, which need no other tensor [N, V]. Autocast is off,
    because it would compute them in bfloat16.
    """
    with torch.autocast(a_NV.device.type, enabled=False):
        return torch.bmm(a_NV[:, None], b_NV[:, :, None])[:, 0]
