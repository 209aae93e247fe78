"""Cells with layer normalisation (Ba et al. 2016). N is a layer norm with its own gain at each place.

The products with the input and with the state have separate norms, so the former are computed for all positions at
once.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.layers.modules.cells.looped import HiddenCell, recurrence
from transduce.layers.modules.cells.lstm import LoopedLSTM, LSTMState


class LayerNormLSTM(LoopedLSTM):
    """An LSTM with layer normalisation N of all products (Ba et al. 2016, supplementary material):

    i, f, g, o = N(W x) + N(U h) + b; c' = sigmoid(f) c + sigmoid(i) tanh(g); h' = sigmoid(o) tanh(N(c') + b).

    x is the input and (h, c) the state. The norms of W x and of U h are over all 4 * width numbers. ``forget_bias`` is
    the initial bias of the forget gate f.
    """

    gate_names = ("forget", "input", "output")  # in the order of a step's sigmoids

    def __init__(self, input_width: int, width: int, forget_bias: float = 1.0) -> None:
        super().__init__(input_width, width, parts=4, bias=False)
        self.recurrent = recurrence(width, 4)
        self.input_norm = nn.LayerNorm(4 * width)
        self.recurrent_norm = nn.LayerNorm(4 * width, bias=False)
        self.memory_norm = nn.LayerNorm(width)
        nn.init.constant_(self.input_norm.bias.chunk(4)[1], forget_bias)

    def prepare(self, projected: Tensor) -> Tensor:
        normed: Tensor = self.input_norm(projected)
        return normed

    def advance(self, normed_BG: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        h, c = state
        i, f, g, o = (normed_BG + self.recurrent_norm(self.recurrent(h))).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(self.memory_norm(c))
        return h, (h, c)


class LayerNormGRU(HiddenCell):
    """A gated recurrent unit with layer normalisation N of all products (Ba et al. 2016, supplementary material):

    z, r = sigmoid(N(W x) + N(U h) + b); n = tanh(N(W x) + b + r (N(U h) + b)); h' = (1 - z) h + z n.

    x is the input and h the state. In each product, z and r share one norm over 2 * width numbers, and n has its own.
    """

    gate_names = ("update", "reset")  # in the order of a step's sigmoids

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__(input_width, width, parts=3, bias=False)
        self.recurrent = recurrence(width, 3)
        self.widths = [2 * width, width]  # z and r, n
        self.input_gates_norm, self.input_new_norm = (nn.LayerNorm(size) for size in self.widths)
        self.gates_norm, self.new_norm = nn.LayerNorm(2 * width, bias=False), nn.LayerNorm(width)

    def prepare(self, projected: Tensor) -> tuple[Tensor, Tensor]:
        gates, n = torch.split(projected, self.widths, -1)
        return self.input_gates_norm(gates), self.input_new_norm(n)

    def advance(self, prepared: tuple[Tensor, Tensor], h: Tensor) -> tuple[Tensor, Tensor]:
        gates, n = prepared
        hidden_gates, hidden_n = torch.split(self.recurrent(h), self.widths, 1)
        z, r = torch.sigmoid(gates + self.gates_norm(hidden_gates)).chunk(2, 1)
        h = h + z * (torch.tanh(n + r * self.new_norm(hidden_n)) - h)
        return h, h
