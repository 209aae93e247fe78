"""Dropout with cheap random numbers on the CPU, where a random float per element costs more than a layer norm."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.compute import kernels
from transduce.core.errors import UserError

EVERY_INTEGER = -(2**63)  # the smallest int64; random_ from here without an upper bound fills all 64 bits
COARSE = 1 / 32  # a byte rounds p and 1 - p by at most 1/512, which is at most 6 % of values from here on


class Dropout(nn.Module):
    """In training, sets each element to 0 with probability ``p`` and multiplies the others by 1 / (1 - p). Otherwise
    returns its input.

    Srivastava et al. 2014. The compiled library computes it on the CPU, for float32 and bfloat16. It is faster
    than ``torch.nn.functional.dropout``, and keeps no mask for the backward pass. Without the library, and for
    float64, one random *byte* decides about an element on the CPU. There ``p`` is rounded to a multiple of 1/256, and
    the scale with it, so the expectation stays exact. Everything else uses PyTorch's function: other devices, and a
    ``p`` closer to 0 or 1 than 1/32, which a byte would round too much. Raises UserError unless 0 <= p < 1.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise UserError(f"dropout = {p}: a probability of at least 0 and less than 1 was expected")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        if kernels.fits(x):
            return kernels.drop(x, self.p)
        if x.device.type != "cpu" or not COARSE <= self.p <= 1 - COARSE:
            return nn.functional.dropout(x, self.p)
        dropped = round(self.p * 256)  # byte values out of 256 that drop an element
        bits = torch.empty((x.numel() + 7) // 8, dtype=torch.int64).random_(EVERY_INTEGER, None)
        kept = bits.view(torch.uint8)[: x.numel()].view(x.shape).ge_(dropped)  # 0 or 1 as bytes: bools take ten times
        return x * kept.to(x.dtype).mul_(256 / (256 - dropped))

    def of_relu(self, x: Tensor) -> Tensor:
        """dropout(relu(x)). May change x."""
        if self.training and self.p > 0 and kernels.fits(x):
            return kernels.drop_rectified(x, self.p)
        dropped: Tensor = self(torch.relu_(x))
        return dropped

    def added_to(self, base: Tensor, x: Tensor) -> Tensor:
        """base + dropout(x), for a residual connection."""
        alike = base.shape == x.shape and torch.promote_types(base.dtype, x.dtype) == base.dtype
        if self.training and self.p > 0 and alike and kernels.fits(base) and kernels.fits(x):
            return kernels.add_dropped(base, x, self.p)
        total: Tensor = base + self(x)
        return total

    def extra_repr(self) -> str:
        return f"p={self.p}"
