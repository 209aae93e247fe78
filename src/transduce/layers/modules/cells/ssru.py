"""The simpler simple recurrent unit."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.layers.modules.cells.looped import HiddenCell


class SSRU(HiddenCell):
    """The simpler simple recurrent unit (Kim et al. 2019): f = sigmoid(W x + b); c' = f c + (1 - f) V x; the output is
    relu(c').

    x is the input and c [B, width] the state. There is no product with the state, so a step is elementwise and training
    costs little more than the projection. ``forget_bias`` is the initial value of b; a positive value lets a new cell
    remember, as in an LSTM.
    """

    gate_names = ("forget",)  # in the order of a step's sigmoids

    def __init__(self, input_width: int, width: int, forget_bias: float = 1.0) -> None:
        super().__init__(input_width, width, parts=2, bias=False)
        self.forget_bias = nn.Parameter(torch.full((width,), forget_bias))

    def output(self, state: Tensor) -> Tensor:
        return torch.relu(state)

    def prepare(self, projected: Tensor) -> tuple[Tensor, Tensor]:
        f, x = projected.chunk(2, -1)
        return torch.sigmoid(f + self.forget_bias), x

    def advance(self, prepared: tuple[Tensor, Tensor], c: Tensor) -> tuple[Tensor, Tensor]:
        f, x = prepared
        c = x + f * (c - x)
        return torch.relu(c), c
