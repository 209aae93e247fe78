"""The Conformer's convolution, as a mixer. B rows, S positions, D features, K the kernel.

It ignores ``heads`` and ``dropout``: it has no heads, and the residual connection around it applies dropout.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.core.types import Padded
from transduce.layers.modules.convolution import centred, check_centred, convolve_each
from transduce.layers.modules.linear import projection


class ConvolutionModule(nn.Module):
    """The convolution of a Conformer layer, as a mixer: W' swish(norm(conv(glu(W x + b)))) + b' (Gulati et al. 2020,
    section 2.2). Maps [B, S, width] to the same shape.

    Each feature is convolved on its own, over ``kernel`` positions, an odd number, with zero padding at the ends of the
    row. The norm is a layer norm. The paper uses a batch norm, through which a row would depend on its batch and its
    padding.
    """

    def __init__(self, width: int, heads: int, dropout: float, kernel: int = 31) -> None:
        super().__init__()
        check_centred(kernel)
        self.kernel = kernel
        self.enter = projection(width, width, 2)
        self.weight = nn.Parameter(torch.randn(width, kernel) * kernel**-0.5)
        self.bias = nn.Parameter(torch.zeros(width))
        self.norm = nn.LayerNorm(width)
        self.leave = projection(width, width)

    def forward(self, x: Padded) -> Tensor:
        now_BSD = nn.functional.glu(self.enter(x.values), -1).masked_fill(~x.mask[..., None], 0.0)
        read_BSD = convolve_each(centred(now_BSD, self.kernel), self.weight) + self.bias
        y_BSD: Tensor = self.leave(nn.functional.silu(self.norm(read_BSD)))
        return y_BSD
