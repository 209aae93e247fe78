"""Lightweight and dynamic convolutions instead of self-attention (Wu et al. 2019): a position reads a few around it.

B rows, S positions in, T positions out, K the kernel, P = K - 1 positions before, H heads, D features.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.core.types import Padded
from transduce.layers.modules.attention.heads import check_heads, merge_heads, split_heads
from transduce.layers.modules.convolution import centred, check_centred, check_kernel, convolve_at
from transduce.layers.modules.dropout import Dropout
from transduce.layers.modules.linear import projection


class Lightweight(nn.Module):
    """Computes the kernels of a lightweight convolution: softmax(W) over the ``kernel`` positions, [1, H, 1, K]. Each
    head has one kernel, the same at every position (Wu et al. 2019, section 3, eq. 3-4).
    """

    def __init__(self, width: int, heads: int, kernel: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, kernel))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, now_BTD: Tensor) -> Tensor:
        return torch.softmax(self.weight, -1)[None, :, None]


class Dynamic(nn.Module):
    """Computes the kernels of a dynamic convolution: softmax(W x_t + b) over the ``kernel`` positions, [B, H, T, K].
    Each position has its own kernels, one for each head (Wu et al. 2019, section 4).
    """

    def __init__(self, width: int, heads: int, kernel: int) -> None:
        super().__init__()
        self.shape = (heads, kernel)
        self.predict = projection(width, heads * kernel)

    def forward(self, now_BTD: Tensor) -> Tensor:
        return torch.softmax(self.predict(now_BTD).unflatten(-1, self.shape).transpose(1, 2), -1)


class GatedMixer(nn.Module):
    """Base class of lightweight and dynamic convolutions: W' sum_k kernel_{t,k} glu(W x + b)_{f+k} + b' at each
    position t (Wu et al. 2019, figure 2). f is the first position that t reads, which the subclass decides, and k goes
    from 0 to ``kernel`` - 1.

    ``kernels`` is the class that computes the kernels, ``kernel`` the number of positions that a kernel covers. The
    features of a head share its kernel. Dropout applies to the kernel's weights (DropConnect).
    """

    def __init__(
        self, kernels: type[Lightweight] | type[Dynamic], width: int, heads: int, dropout: float, kernel: int
    ) -> None:
        super().__init__()
        check_heads(width, heads)
        check_kernel(kernel)
        self.heads, self.kernel = heads, kernel
        self.enter = projection(width, width, 2)
        self.kernels = kernels(width, heads, kernel)
        self.dropout = Dropout(dropout)
        self.leave = projection(width, width)

    def gate(self, x_BTD: Tensor) -> Tensor:
        return nn.functional.glu(self.enter(x_BTD), -1)

    def read(self, seen_BSD: Tensor, now_BTD: Tensor) -> Tensor:
        weight_BHTK = self.dropout(self.kernels(now_BTD).to(seen_BSD.dtype)).expand(-1, -1, now_BTD.shape[1], -1)
        (seen_BHSD,) = split_heads(seen_BSD, 1, self.heads)
        y_BTD: Tensor = self.leave(merge_heads(convolve_at(seen_BHSD, weight_BHTK)))
        return y_BTD


class Centred(GatedMixer):
    """Base class of the mixers for encoders: each position reads ``kernel`` positions around it, with zero padding at
    the ends of the row.

    Raises UserError unless ``kernel`` is an odd number.
    """

    def __init__(
        self, kernels: type[Lightweight] | type[Dynamic], width: int, heads: int, dropout: float, kernel: int
    ) -> None:
        check_centred(kernel)
        super().__init__(kernels, width, heads, dropout, kernel)

    def forward(self, x: Padded) -> Tensor:
        now_BSD = self.gate(x.values).masked_fill(~x.mask[..., None], 0.0)
        return self.read(centred(now_BSD, self.kernel), now_BSD)


class Causal(GatedMixer):
    """Base class of the mixers for decoders: each position reads itself and the ``kernel`` - 1 positions before it.

    The state [B, kernel - 1, D] has the gated inputs glu(W x + b) of the last ``kernel`` - 1 positions, and zeros for
    positions before the first. A call does not use ``places_BT``.
    """

    def start(self, rows: int, like: Tensor) -> Tensor:
        return like.new_zeros(rows, self.kernel - 1, self.leave.weight.shape[0])

    def forward(self, x_BTD: Tensor, state: Tensor, places_BT: Tensor) -> tuple[Tensor, Tensor]:
        now_BTD = self.gate(x_BTD)
        seen_BSD = torch.cat([state.to(now_BTD.dtype), now_BTD], 1)
        return self.read(seen_BSD, now_BTD), seen_BSD[:, now_BTD.shape[1] :]


class LightweightConvolution(Centred):
    """Lightweight convolution in an encoder: one kernel for each head, normalised by a softmax, the same at every
    position (Wu et al. 2019).

    ``kernel``, an odd number, is how many positions a layer reads. It can grow with the layers (3, 7, 15, 31 in the
    paper) if ``mixer`` is an array.
    """

    def __init__(self, width: int, heads: int, dropout: float, kernel: int = 7) -> None:
        super().__init__(Lightweight, width, heads, dropout, kernel)


class DynamicConvolution(Centred):
    """Dynamic convolution in an encoder: every position predicts its own kernels, one for each head (Wu et al. 2019).

    ``kernel``, an odd number, is how many positions a layer reads.
    """

    def __init__(self, width: int, heads: int, dropout: float, kernel: int = 7) -> None:
        super().__init__(Dynamic, width, heads, dropout, kernel)


class CausalLightweightConvolution(Causal):
    """Lightweight convolution in a decoder, over the last ``kernel`` positions: one kernel for each head, normalised by
    a softmax, the same at every position (Wu et al. 2019)."""

    def __init__(self, width: int, heads: int, dropout: float, kernel: int = 7) -> None:
        super().__init__(Lightweight, width, heads, dropout, kernel)


class CausalDynamicConvolution(Causal):
    """Dynamic convolution in a decoder, over the last ``kernel`` positions: every position predicts its own kernels,
    one for each head (Wu et al. 2019). The time of a step does not depend on the length of the output."""

    def __init__(self, width: int, heads: int, dropout: float, kernel: int = 7) -> None:
        super().__init__(Dynamic, width, heads, dropout, kernel)
