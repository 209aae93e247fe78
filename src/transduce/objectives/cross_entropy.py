"""What training minimises. N real target positions, V vocabulary."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from transduce import tree
from transduce.errors import UserError
from transduce.objectives.chunks import summed
from transduce.objectives.forcing import Forcing, TeacherForcing
from transduce.protocols import Autoregressive, Distribution, Objective, Parallel
from transduce.types import Batch, Loss, Padded, widened


@dataclass(frozen=True)
class CrossEntropy:
    """Cross-entropy at real positions, the target's distribution smoothed (Szegedy et al. 2016, section 7):

    q(v) = (1 - smoothing) [v = y] + smoothing / V. Reports ``nll``, the part without smoothing. ``forcing`` says after
    which words, the target's or the model's own, a model in training predicts the next; any other is measured after
    the target's.
    """

    smoothing: float = 0.0
    forcing: Forcing = field(default_factory=TeacherForcing)

    def __post_init__(self) -> None:
        check_smoothing(self.smoothing)

    def __call__(
        self, model: Autoregressive[Any], batch: Batch, progress: float = 0.0, carry: Any = None
    ) -> tuple[Loss, Any]:
        return self.of(model, model.start(batch.source), batch.target, progress), carry

    def of(self, model: Any, state: Any, target: Padded, progress: float = 0.0) -> Loss:
        """The loss of a model, or a decoder, that has started already."""
        output, _ = model.extend(self.read(model, state, target, progress), state)
        mask_BT = target.mask
        target_N = target.values[mask_BT]
        real = tree.map(lambda leaf: leaf[mask_BT], output)
        total, nll = cross_entropy(model, real, target_N, self.smoothing)
        return Loss(total, len(target_N), {"nll": nll})

    def read(self, model: Any, state: Any, target: Padded, progress: float) -> Tensor:
        """What the model reads, ids [B, T]."""
        forcing = self.forcing if model.training else TeacherForcing()
        return forcing(model, state, target, progress)


@dataclass(frozen=True)
class ParallelCrossEntropy:
    """Cross-entropy of a model that writes all at once: of each word given the target's length, smoothed as in
    ``CrossEntropy``, and of that length, which stands for EOS.

    - log p(n | x) - sum_t log p(y_t | t, n, x). Reports ``nll``, without smoothing, and ``length``, its first term.
    """

    smoothing: float = 0.0

    def __post_init__(self) -> None:
        check_smoothing(self.smoothing)

    def __call__(
        self, model: Parallel[Any], batch: Batch, progress: float = 0.0, carry: Any = None
    ) -> tuple[Loss, Any]:
        emission = model.emit(model.start(batch.source), batch.target.lengths - 1)
        mask_BT = emission.mask
        target_N = batch.target.values[:, : mask_BT.shape[1]][mask_BT]
        real = tree.map(lambda leaf: leaf[mask_BT], emission.output)
        words, nll = cross_entropy(model, real, target_N, self.smoothing)
        length = -emission.end_log_probs.sum()
        parts = {"nll": nll + length.detach(), "length": length.detach()}
        return Loss(words + length, len(target_N) + len(emission.lengths), parts), carry


def check_smoothing(smoothing: float) -> None:
    if not 0 <= smoothing < 1:
        raise UserError(f"smoothing = {smoothing}: a share of at least 0 and less than 1 was expected")


def cross_entropy(model: Distribution, output: Any, target_N: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Sums over N features, smoothed and plain, as ``smoothed_cross_entropy`` has them; where their logits would not
    fit in a chunk they are made again for the backward pass. Raises ValueError where the target is numbers."""
    if target_N.is_floating_point():
        raise UserError(
            'the target is numbers, and cross-entropy is of tokens: set model.type = "forecaster" and objective = '
            '"squared-error", or other data.units.target'
        )

    def part(output: Any, target: Tensor) -> tuple[Tensor, Tensor]:
        return smoothed_cross_entropy(model.readout(output), target, smoothing)

    total, nll = summed(model, part, output, target_N)
    return total, nll


def smoothed_cross_entropy(logits_NV: Tensor, target_N: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Sums over N of the smoothed cross-entropy (differentiable in the logits) and of the plain one (reported)."""
    total, nll = _SmoothedCrossEntropy.apply(logits_NV, target_N, smoothing)  # type: ignore[no-untyped-call]
    return total, nll


class _SmoothedCrossEntropy(torch.autograd.Function):
    """One softmax forwards, whose result becomes the gradient p - q in place: a third of the time of
    ``torch.nn.functional.cross_entropy`` with smoothing on the CPU, which goes over the logits again and again."""

    @staticmethod
    def forward(ctx: Any, logits_NV: Tensor, target_N: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        probability_NV = torch.softmax(logits_NV, -1)
        wide = widened(logits_NV.dtype)
        # log p = logit - normaliser, and the normaliser is known exactly where p is largest
        normaliser_N = logits_NV.amax(-1).to(wide) - probability_NV.amax(-1).to(wide).log()
        nll = (normaliser_N - logits_NV.gather(1, target_N[:, None])[:, 0]).sum()
        total = nll
        if smoothing:
            V = logits_NV.shape[1]
            mean_N = torch.mv(logits_NV, logits_NV.new_full((V,), 1 / V))  # as a product: bf16 sums are 20 times slower
            total = (1 - smoothing) * nll + smoothing * (normaliser_N - mean_N).sum()
        ctx.save_for_backward(probability_NV, target_N)
        ctx.smoothing = smoothing
        ctx.mark_non_differentiable(nll)
        return total.clone() if total is nll else total, nll

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
        probability_NV, target_N = ctx.saved_tensors
        gradient_NV = probability_NV
        N, V = gradient_NV.shape
        if ctx.smoothing:
            gradient_NV = gradient_NV.sub_(ctx.smoothing / V)
        # flat, because scattering bf16 along an axis takes longer than the softmax
        places_N = torch.arange(N, device=target_N.device) * V + target_N
        gradient_NV.view(-1).index_add_(0, places_N, gradient_NV.new_full((N,), ctx.smoothing - 1))
        return gradient_NV.mul_(grad), None, None


class Trainable(nn.Module):
    """A model with its objective: the one module that DDP and ``torch.compile`` see."""

    def __init__(self, model: nn.Module, objective: Objective[Any]) -> None:
        super().__init__()
        self.model = model
        self.objective = objective

    def forward(self, batch: Batch, progress: float = 0.0, carry: Any = None) -> tuple[Loss, Any]:
        return self.objective(self.model, batch, progress, carry)
