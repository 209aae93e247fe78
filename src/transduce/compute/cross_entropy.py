"""Cross-entropy of logits with its gradient: by the compiled library where it can, otherwise by PyTorch's operators.

N positions, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from transduce.compute import kernels
from transduce.compute.autograd import Context
from transduce.core.types import widened


def smoothed_cross_entropy(logits_NV: Tensor, target_N: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Two scalars, sums over N: the smoothed cross-entropy, differentiable in the logits, and the one without
    smoothing, which has no gradient.
    """
    total, nll = _SmoothedCrossEntropy.apply(logits_NV, target_N, smoothing)  # type: ignore[no-untyped-call]
    return total, nll


class _SmoothedCrossEntropy(torch.autograd.Function):
    """Computes the gradient p - q in the forward pass, with the softmax that the loss needs.

    ``torch.nn.functional.cross_entropy`` reads the logits several times. With smoothing it takes three times as long on
    the CPU as ``_by_operators``. Our own kernel is faster than both.
    """

    @staticmethod
    def forward(ctx: Context, logits_NV: Tensor, target_N: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        if kernels.fits(logits_NV):
            nll, smooth, gradient_NV = kernels.cross_entropy(logits_NV, target_N, smoothing)
        else:
            nll, smooth, gradient_NV = _by_operators(logits_NV, target_N, smoothing)
        # a masked word has an infinite -log p, which must not count without smoothing
        total = (1 - smoothing) * nll + smoothing * smooth if smoothing else nll.clone()
        ctx.save_for_backward(gradient_NV)
        nll, total = (each.to(widened(logits_NV.dtype)) for each in (nll, total))
        ctx.mark_non_differentiable(nll)
        return total, nll

    @staticmethod
    def backward(ctx: Context, grad: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
        (gradient_NV,) = ctx.saved_tensors
        if grad.device.type != "cpu" or grad != 1:  # comparing on a GPU would wait for the result
            gradient_NV.mul_(grad)
        return gradient_NV, None, None


def _by_operators(logits_NV: Tensor, target_N: Tensor, smoothing: float) -> tuple[Tensor, Tensor, Tensor]:
    """``kernels.cross_entropy`` by PyTorch's operators, for any device and type."""
    N, V = logits_NV.shape
    probability_NV = torch.softmax(logits_NV, -1)
    wide = widened(logits_NV.dtype)
    # log p = logit - normaliser; the largest p gives the normaliser with the smallest error
    normaliser_N = _largest(logits_NV).to(wide) - _largest(probability_NV).to(wide).log()
    nll = (normaliser_N - logits_NV.gather(1, target_N[:, None])[:, 0]).sum()
    smooth, gradient_NV = nll.new_zeros(()), probability_NV
    if smoothing:
        mean_N = torch.mv(logits_NV, logits_NV.new_full((V,), 1 / V))  # a sum in bfloat16 is 20 times slower
        smooth = (normaliser_N - mean_N).sum()
        gradient_NV = gradient_NV.sub_(smoothing / V)
    # on the flat tensor, because scattering bfloat16 along an axis takes longer than the softmax
    index_N = torch.arange(N, device=target_N.device) * V + target_N
    gradient_NV.view(-1).index_add_(0, index_N, gradient_NV.new_full((N,), smoothing - 1))
    return nll, smooth, gradient_NV


def _largest(x_NV: Tensor) -> Tensor:
    """The largest number of each row [N].

    The CPU takes ten times as long for bfloat16 as for integers. So the bits are read as integers. The integer of a
    positive number grows with the number. The integer of a negative number falls, and is below all positive ones.
    """
    if x_NV.dtype != torch.bfloat16 or x_NV.device.type != "cpu":
        return x_NV.amax(-1)
    bits_NV = x_NV.view(torch.int16)
    largest_N = bits_NV.amax(-1)
    return torch.where(largest_N < 0, bits_NV.amin(-1), largest_N).view(torch.bfloat16)
