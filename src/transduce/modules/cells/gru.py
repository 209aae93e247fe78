"""The gated recurrent unit as it was first written."""

from __future__ import annotations

import torch
from torch import Tensor

from transduce.modules.cells.looped import HiddenCell, recurrence


class GRUResetBefore(HiddenCell):
    """Gated recurrent unit whose reset gate comes before the product (Cho et al. 2014):

    r, z = sigmoid(W x + U h + b); n = tanh(W x + U (r h) + b); h' = z h + (1 - z) n. Some write 1 - z for z.
    """

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__(input_width, width, parts=3)
        self.gates = recurrence(width, 2)
        self.new = recurrence(width)

    def advance(self, projected_BG: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        projected_gates, projected_n = torch.split(projected_BG, [2 * self.width, self.width], 1)
        r, z = torch.sigmoid(projected_gates + self.gates(h)).chunk(2, 1)
        n = torch.tanh(projected_n + self.new(r * h))
        h = n + z * (h - n)
        return h, h
