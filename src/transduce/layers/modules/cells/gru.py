"""Gated recurrent units: with the reset gate after the product (torch's fused kernel), and before it.

B rows, T positions, D input features, W the cell's width, G gates * width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from transduce.layers.modules.cells import torch_operators
from transduce.layers.modules.cells.looped import HiddenCell, real_outputs, recurrence
from transduce.layers.modules.linear import linear


class GRU(nn.Module):
    """Gated recurrent unit (Cho et al. 2014) with the reset gate after the product, as in cuDNN:

    r, z = sigmoid(W x + U h + b); n = tanh(W x + b + r (U h + b')); h' = (1 - z) n + z h. x is the input and h the
    state. Each formula has its own W, U and b.
    """

    gate_names = ("reset", "update")  # in the order of a step's sigmoids

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.projected_width = 3 * width
        self.fused: Any = nn.GRU(input_width, width, batch_first=True)

    def start(self, rows: int, like: Tensor) -> Tensor:
        return like.new_zeros(rows, self.width)

    def output(self, state: Tensor) -> Tensor:
        return state

    def project(self, x_BTD: Tensor) -> Tensor:
        return linear(x_BTD, self.fused.weight_ih_l0, self.fused.bias_ih_l0)

    def step(self, projected_BG: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        hidden_BG = linear(state, self.fused.weight_hh_l0, self.fused.bias_hh_l0)
        projected_r, projected_z, projected_n = projected_BG.chunk(3, 1)
        hidden_r, hidden_z, hidden_n = hidden_BG.chunk(3, 1)
        reset, keep = torch.sigmoid(projected_r + hidden_r), torch.sigmoid(projected_z + hidden_z)
        new = torch.tanh(projected_n + reset * hidden_n)
        h = new + keep * (state - new)
        return h, h

    def unroll(self, x_BTD: Tensor, state: Tensor, lengths_B: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if lengths_B is None and torch_operators.is_search_step(x_BTD):
            y_BW, h_BW = self.step(self.project(x_BTD)[:, 0], state)
            return y_BW[:, None], h_BW
        if torch_operators.is_exporting():
            y_BTW, h_BW = torch_operators.gru(x_BTD, state, self.fused.all_weights[0])
        else:
            y_BTW, h_1BW = self.fused(x_BTD, state[None])
            h_BW = h_1BW[0]
        return (y_BTW, h_BW) if lengths_B is None else real_outputs(y_BTW, lengths_B)


class GRUResetBefore(HiddenCell):
    """Gated recurrent unit with the reset gate before the product (Cho et al. 2014):

    r, z = sigmoid(W x + U h + b); n = tanh(W x + U (r h) + b); h' = z h + (1 - z) n. x is the input and h the state.
    Each formula has its own W, U and b. Some papers exchange z and 1 - z.
    """

    gate_names = ("reset", "update")  # in the order of a step's sigmoids

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
