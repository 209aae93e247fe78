"""Dilated convolutions as mixers: a kernel reads positions that stand ``dilation`` apart (Kalchbrenner et al. 2016).

B rows, S positions in, T positions out, D features, K the kernel, P = (K - 1) * dilation positions before. The mixers
ignore ``heads`` and ``dropout``: they have no heads, and the residual connection around them applies dropout.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.types import Padded
from transduce.layers.modules.convolution import check_centred, check_kernel
from transduce.layers.modules.linear import linear, projection


class Dilated(nn.Module):
    """Base class: W' glu(sum_k V_k x_{f + k dilation} + b) + b' at each position, where f is the first position that it
    reads, which the subclass decides, and k goes from 0 to ``kernel`` - 1.

    With dilations 1, k, k^2, ... from layer to layer, log_k n layers connect n positions; contiguous kernels need n / k
    (Vaswani et al. 2017, section 4). Raises UserError for a ``kernel`` or a ``dilation`` below 1.
    """

    def __init__(self, width: int, kernel: int, dilation: int) -> None:
        super().__init__()
        check_kernel(kernel)
        if dilation < 1:
            raise UserError(f"dilation = {dilation}: the positions that a kernel reads are at least 1 apart")
        self.kernel, self.dilation = kernel, dilation
        self.span = (kernel - 1) * dilation
        self.enter = projection(kernel * width, width, 2)
        self.leave = projection(width, width)

    def read(self, seen_BSD: Tensor) -> Tensor:
        """[B, S - P, D]: output t reads positions t, t + dilation, ..., t + P."""
        T = seen_BSD.shape[1] - self.span
        windows_BTI = torch.cat([seen_BSD[:, at : at + T] for at in range(0, self.span + 1, self.dilation)], 2)
        gated_BTD = nn.functional.glu(linear(windows_BTI, self.enter.weight, self.enter.bias), -1)
        y_BTD: Tensor = self.leave(gated_BTD)
        return y_BTD


class DilatedConvolution(Dilated):
    """A dilated convolution in an encoder: each position reads ``kernel`` positions, an odd number, that stand
    ``dilation`` apart around it. Beyond the ends of a row it reads zeros.

    ``mixer`` is an array if the dilation grows with the layers: 1, 3, 9 for a kernel of 3.
    """

    def __init__(self, width: int, heads: int, dropout: float, kernel: int = 3, dilation: int = 1) -> None:
        check_centred(kernel)
        super().__init__(width, kernel, dilation)

    def forward(self, x: Padded) -> Tensor:
        now_BSD = x.values.masked_fill(~x.mask[..., None], 0.0)
        beyond = self.span // 2
        return self.read(nn.functional.pad(now_BSD, (0, 0, beyond, beyond)))


class CausalDilatedConvolution(Dilated):
    """A dilated convolution in a decoder: each position reads itself and ``kernel`` - 1 positions before it, which
    stand ``dilation`` apart.

    The state [B, P, D] has the last P inputs, and zeros for positions before the first. So a step costs the same for
    any length of the output. A call does not use ``places_BT``.
    """

    def __init__(self, width: int, heads: int, dropout: float, kernel: int = 3, dilation: int = 1) -> None:
        super().__init__(width, kernel, dilation)

    def start(self, rows: int, like: Tensor) -> Tensor:
        return like.new_zeros(rows, self.span, self.leave.weight.shape[0])

    def forward(self, x_BTD: Tensor, state: Tensor, places_BT: Tensor) -> tuple[Tensor, Tensor]:
        seen_BSD = torch.cat([state.to(x_BTD.dtype), x_BTD], 1)
        return self.read(seen_BSD), seen_BSD[:, x_BTD.shape[1] :]
