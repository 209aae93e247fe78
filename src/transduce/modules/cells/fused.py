"""The cells that torch has a fused kernel for: it unrolls them, and a step on its own uses the same weights by the
formula. B rows, T positions, D input features, W the cell's width, G gates * width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from transduce.modules.linear import linear

S = TypeVar("S")
LSTMState = tuple[Tensor, Tensor]  # h, c [B, W]


class LSTM(nn.Module):
    """Long short-term memory (Hochreiter and Schmidhuber 1997; forget gate of Gers et al. 2000):

    i, f, o = sigmoid(W x + U h + b), g = tanh(W x + U h + b); c' = f c + i g; h' = o tanh(c').
    Drawn uniformly from +-1/sqrt(width); the forget gate's bias is ``forget_bias`` (Jozefowicz et al. 2015).
    """

    def __init__(self, input_width: int, width: int, forget_bias: float = 1.0) -> None:
        super().__init__()
        self.width = width
        self.projected_width = 4 * width
        self.fused = nn.LSTM(input_width, width, batch_first=True)
        _, _, bias_ih, bias_hh = self.fused.all_weights[0]
        nn.init.zeros_(bias_hh)
        nn.init.zeros_(bias_ih)
        nn.init.constant_(bias_ih[width : 2 * width], forget_bias)

    def start(self, rows: int, like: Tensor) -> LSTMState:
        return like.new_zeros(rows, self.width), like.new_zeros(rows, self.width)

    def output(self, state: LSTMState) -> Tensor:
        return state[0]

    def project(self, x_BTD: Tensor) -> Tensor:
        weight_ih, _, bias_ih, bias_hh = self.fused.all_weights[0]
        return linear(x_BTD, weight_ih, bias_ih + bias_hh)

    def step(self, projected_BG: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        h, c = state
        _, weight_hh, _, _ = self.fused.all_weights[0]
        i, f, g, o = (projected_BG + linear(h, weight_hh)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, (h, c)

    def unroll(self, x_BTD: Tensor, state: LSTMState, lengths_B: Tensor | None = None) -> tuple[Tensor, LSTMState]:
        h, c = state
        y_BTW, (h_1BW, c_1BW) = _unroll(self.fused, x_BTD, (h[None], c[None]), lengths_B)
        return y_BTW, (h_1BW[0], c_1BW[0])


class GRU(nn.Module):
    """Gated recurrent unit (Cho et al. 2014), in the form whose reset gate comes after the product, as cuDNN has it:

    r, z = sigmoid(W x + U h + b); n = tanh(W x + b + r (U h + b')); h' = (1 - z) n + z h.
    """

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.projected_width = 3 * width
        self.fused = nn.GRU(input_width, width, batch_first=True)

    def start(self, rows: int, like: Tensor) -> Tensor:
        return like.new_zeros(rows, self.width)

    def output(self, state: Tensor) -> Tensor:
        return state

    def project(self, x_BTD: Tensor) -> Tensor:
        weight_ih, _, bias_ih, _ = self.fused.all_weights[0]
        return linear(x_BTD, weight_ih, bias_ih)

    def step(self, projected_BG: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        _, weight_hh, _, bias_hh = self.fused.all_weights[0]
        hidden_BG = linear(state, weight_hh, bias_hh)
        projected_r, projected_z, projected_n = projected_BG.chunk(3, 1)
        hidden_r, hidden_z, hidden_n = hidden_BG.chunk(3, 1)
        reset, keep = torch.sigmoid(projected_r + hidden_r), torch.sigmoid(projected_z + hidden_z)
        new = torch.tanh(projected_n + reset * hidden_n)
        h = new + keep * (state - new)
        return h, h

    def unroll(self, x_BTD: Tensor, state: Tensor, lengths_B: Tensor | None = None) -> tuple[Tensor, Tensor]:
        y_BTW, h_1BW = _unroll(self.fused, x_BTD, state[None], lengths_B)
        return y_BTW, h_1BW[0]


def _unroll(fused: Callable[..., tuple[Any, S]], x_BTD: Tensor, state: S, lengths_B: Tensor | None) -> tuple[Tensor, S]:
    """torch's kernel; packed only where rows really end at different places (packing costs half the speed in fp32)."""
    T = x_BTD.shape[1]
    if lengths_B is None or int(lengths_B.min()) == T:
        return fused(x_BTD, state)
    packed = pack_padded_sequence(x_BTD, lengths_B.cpu(), batch_first=True, enforce_sorted=False)
    y, state = fused(packed, state)
    return pad_packed_sequence(y, batch_first=True, total_length=T)[0], state
