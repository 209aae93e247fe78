"""Convolutions over positions, and the gated blocks of ConvS2S.

B rows, S positions in, T positions out, D features, O output features, K the kernel, H heads.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.types import Padded
from transduce.layers.modules.dropout import Dropout
from transduce.layers.modules.linear import linear

HALVE = 0.5**0.5
"""The sum of two independent terms of equal variance, times HALVE, has the variance of one term (Gehring et al. 2017,
section 3.4).
"""


BLOCK = 128  # output positions that ``convolve_at`` computes with one matrix


class Convolution(nn.Module):
    """A convolution with weight normalisation (Salimans and Kingma 2016), without padding.

    Maps [B, S, inputs] to [B, S - kernel + 1, outputs]: y_t = g * (V [x_t; ...; x_{t+kernel-1}]) / |V| + b, where |V|
    is the norm of each output's weights. A kernel of 1 is a linear layer. V is drawn from N(0, variance / (kernel *
    inputs)). The initial gains g equal the norms |V|, and b starts at 0. Raises UserError if ``kernel`` is below 1.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int = 1, variance: float = 1.0) -> None:
        super().__init__()
        check_kernel(kernel)
        self.kernel = kernel
        self.weight = nn.Parameter(torch.empty(outputs, inputs, kernel))
        nn.init.normal_(self.weight, std=(variance / (kernel * inputs)) ** 0.5)
        self.gain = nn.Parameter(torch.linalg.vector_norm(self.weight.detach().flatten(1), dim=1))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def scale(self) -> Tensor:
        """[O]: g / |V|. Without gradients, ``forward`` computes it if it is not given as ``scale_O``.

        A decoder computes it once per sentence: in each search step it would cost a third of the product.
        """
        scale_O: Tensor = self.gain / torch.linalg.vector_norm(self.weight.flatten(1), dim=1)
        return scale_O

    def forward(self, x_BSD: Tensor, scale_O: Tensor | None = None) -> Tensor:
        if torch.is_grad_enabled():  # a batch of training has more outputs than weights: scale the weights
            weight_ODK = torch._weight_norm(self.weight, self.gain[:, None, None], 0)
            return convolve(x_BSD, weight_ODK, self.bias)
        scale_O = self.scale() if scale_O is None else scale_O
        return torch.addcmul(self.bias, convolve(x_BSD, self.weight), scale_O)


def convolve(x_BSD: Tensor, weight_ODK: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """[B, S - K + 1, O]: output t is the product of the weights with the K positions from t on.

    On a CPU this is a linear layer of windows. torch's convolution would make a kernel for each number of rows and
    positions, and training would take up to twice as long.
    """
    S, K = x_BSD.shape[1], weight_ODK.shape[2]
    if K == 1:
        return linear(x_BSD, weight_ODK, bias_O)
    if S == K:
        return linear(x_BSD.transpose(1, 2).flatten(1), weight_ODK, bias_O)[:, None]
    if x_BSD.device.type != "cpu" or torch.compiler.is_compiling():
        return _as_image(x_BSD, weight_ODK, bias_O)
    T = S - K + 1
    windows_BTI = torch.cat([x_BSD[:, first : first + T] for first in range(K)], 2)
    return linear(windows_BTI, weight_ODK.transpose(1, 2), bias_O)


def convolve_each(x_BSD: Tensor, weight_DK: Tensor) -> Tensor:
    """[B, S - K + 1, D]: convolves each feature separately (depthwise)."""
    return _as_image(x_BSD, weight_DK[:, None], None, len(weight_DK))


def _as_image(x_BSD: Tensor, weight_ODK: Tensor, bias_O: Tensor | None, groups: int = 1) -> Tensor:
    """Convolves an image one pixel high with channels last, so that features are not moved in memory."""
    y_BO1T = nn.functional.conv2d(x_BSD.transpose(1, 2)[:, :, None], weight_ODK[:, :, None], bias_O, groups=groups)
    return y_BO1T[:, :, 0].transpose(1, 2)


def centred(x_BSD: Tensor, kernel: int) -> Tensor:
    """x with kernel // 2 zeros before and after its positions, so that a convolution's output is as long as x.

    The kernel must be odd.
    """
    return nn.functional.pad(x_BSD, (0, 0, kernel // 2, kernel // 2))


def convolve_at(x_BHSD: Tensor, weight_BHTK: Tensor) -> Tensor:
    """[B, H, T = S - K + 1, D]: output t is the sum of positions t to t + K - 1, with weights of its own.

    All features of a head share these weights. If x or the weights have only 1 for B or H, that 1 serves all rows or
    heads of the other. Computed like local attention: the weights are written into a matrix over positions (``band``).
    A product with windows of x takes three to twenty times as long. Blocks of ``BLOCK`` outputs keep the cost linear in
    the row's length.
    """
    before = weight_BHTK.shape[3] - 1
    blocks, first = [], 0
    for weight_BHtK in torch.split(weight_BHTK, BLOCK, 2):
        after = first + weight_BHtK.shape[2]
        blocks.append(torch.matmul(band(weight_BHtK), x_BHSD[:, :, first : after + before]))
        first = after
    return blocks[0] if len(blocks) == 1 else torch.cat(blocks, 2)


def band(weight_BHTK: Tensor) -> Tensor:
    """[B, H, T, S = T + K - 1]: each position's K weights at the positions that they apply to, zeros elsewhere.

    The weights of position t go to columns t to t + K - 1: rows of S + 1 numbers, read as rows of S.
    """
    B, H, T, K = weight_BHTK.shape
    S = T + K - 1
    return nn.functional.pad(weight_BHTK, (0, T)).flatten(2)[..., : T * S].view(B, H, T, S)


def concatenate_neighbours(x: Padded, count: int) -> Padded:
    """Fewer and wider steps [B, ceil(S / count), count * D]: each concatenates ``count`` adjacent steps.

    If the last group of a row has fewer real steps, zeros take the place of the missing ones. Lengths count groups.
    """
    real_BSD = x.values.masked_fill(~x.mask[..., None], 0.0)
    whole_BSD = nn.functional.pad(real_BSD, (0, 0, 0, -real_BSD.shape[1] % count))
    joined_BSE = torch.unflatten(whole_BSD, 1, (-1, count)).flatten(2)
    return Padded(joined_BSE, (x.lengths + count - 1) // count)


def check_kernel(kernel: int) -> None:
    if kernel < 1:
        raise UserError(f"kernel = {kernel}: a convolution reads at least one position")


def check_centred(kernel: int, name: str = "kernel") -> None:
    if kernel < 1 or kernel % 2 == 0:
        raise UserError(
            f"{name} = {kernel}: what is centred on a position reads as many before as after it; make it odd"
        )


class GatedConvolution(nn.Module):
    """The convolution of ConvS2S (v(x) of Gehring et al. 2017, section 3.2): a convolution to twice the width, then a
    gated linear unit.

    Maps [B, S, width] to [B, S - kernel + 1, width]. The unit is a * sigmoid(b) of the two halves a and b (Dauphin et
    al. 2017). The weights' initial variance 4 p / n compensates for the gate and for the dropout before the convolution
    (section 3.5). Here p is the share that dropout keeps, and n = kernel * width. A call does not apply the submodule
    ``dropout``: the caller applies it to the input.
    """

    def __init__(self, width: int, kernel: int, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.convolution = Convolution(width, 2 * width, kernel, variance=4 * (1 - dropout))

    def forward(self, x_BSD: Tensor, scale_O: Tensor | None = None) -> Tensor:
        return nn.functional.glu(self.convolution(x_BSD, scale_O), -1)


class _Scaled(Protocol):
    scale: float


class _GradientScale(torch.autograd.Function):
    @staticmethod
    def forward(context: _Scaled, x: Tensor, scale: float) -> Tensor:
        context.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(context: _Scaled, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * context.scale, None


def scale_gradient(x: Tensor, scale: float) -> Tensor:
    """Returns the values of ``x``. The backward pass multiplies the gradient by ``scale``."""
    scaled: Tensor = _GradientScale.apply(x, scale)  # type: ignore[no-untyped-call]
    return scaled
