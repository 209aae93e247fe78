"""Dropout, made cheap on the CPU, where drawing a float for every element costs more than a layer norm."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.errors import UserError

EVERY_INTEGER = -(2**63)  # the smallest int64: random_ from here on fills all 64 bits


class Dropout(nn.Module):
    """While training, zero each element with probability ``p`` and scale the rest by 1 / (1 - p) (Srivastava et al.
    2014).

    On the CPU one random *byte* decides an element, so ``p`` is rounded to a multiple of 1/256 (and the scale with
    it: the expectation stays exact). That is four times as fast as ``torch.nn.functional.dropout``
    (benchmarks/results/), which is used on every other device.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise UserError(f"dropout = {p}: a probability of at least 0 and less than 1 was expected")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu":
            return nn.functional.dropout(x, self.p)
        dropped = min(round(self.p * 256), 255)  # of 256: something is always kept
        bits = torch.empty((x.numel() + 7) // 8, dtype=torch.int64).random_(EVERY_INTEGER, None)
        kept = bits.view(torch.uint8)[: x.numel()].view(x.shape) >= dropped
        return x * kept.to(x.dtype).mul_(256 / (256 - dropped))

    def extra_repr(self) -> str:
        return f"p={self.p}"
