"""The Conformer's convolution, in place of self-attention or beside it. B rows, S positions, D features, K the kernel.

Of what a layer hands its mixer only ``width`` matters here: what it returns is dropped by the residual connection
around it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.modules.convolution import centred, check_centred, convolve_each
from transduce.modules.linear import projection
from transduce.types import Padded


class ConvolutionModule(nn.Module):
    """W' swish(norm(conv(glu(W x + b)))) + b', each feature convolved by itself over ``kernel`` positions, an odd
    number, zeros beyond the ends of the row: Gulati et al. 2020, section 2.2.

    The norm is of a position's own features (layer norm). The paper's is over the batch, by which a row would hear of
    its company and its padding.
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
