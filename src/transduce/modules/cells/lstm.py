"""Long short-term memory in forms that no fused kernel has: without one of its gates, and with peepholes."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from transduce.modules.cells.fused import LSTMState
from transduce.modules.cells.looped import LoopedCell, recurrence

GATES = ("input", "forget", "output")


class LoopedLSTM(LoopedCell[LSTMState]):
    """A cell whose state is h, its output, and c, its memory, [B, W] both."""

    def start(self, rows: int, like: Tensor) -> LSTMState:
        return like.new_zeros(rows, self.width), like.new_zeros(rows, self.width)

    def output(self, state: LSTMState) -> Tensor:
        return state[0]


class LSTMWithout(LoopedLSTM):
    """An LSTM one of whose gates, ``gate``, is always 1 (Jozefowicz et al. 2015; Greff et al. 2017):

    i, f, o = sigmoid(W x + U h + b), g = tanh(W x + U h + b); c' = f c + i g; h' = o tanh(c').
    """

    def __init__(
        self, input_width: int, width: int, gate: Literal["forget", "input", "output"], forget_bias: float = 1.0
    ) -> None:
        super().__init__(input_width, width, parts=3)
        if gate not in GATES:
            raise ValueError(f'gate = "{gate}": the gates of an LSTM are {", ".join(GATES)}')
        self.gates = tuple(name for name in GATES if name != gate)
        self.recurrent = recurrence(width, 3)
        if gate != "forget":
            nn.init.constant_(self.input.bias.chunk(3)[self.gates.index("forget")], forget_bias)

    def advance(self, projected_BG: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        h, c = state
        *gates, g = (projected_BG + self.recurrent(h)).chunk(3, 1)
        opened = {name: torch.sigmoid(gate) for name, gate in zip(self.gates, gates, strict=True)}
        i, f, o = (opened.get(name, 1.0) for name in GATES)
        c = f * c + i * torch.tanh(g)
        h = o * torch.tanh(c)
        return h, (h, c)


class PeepholeLSTM(LoopedLSTM):
    """An LSTM whose gates see the memory, each unit its own (Gers and Schmidhuber 2000):

    i, f = sigmoid(W x + U h + b + p c), c' = f c + i tanh(W x + U h + b); o = sigmoid(W x + U h + b + p c'),
    h' = o tanh(c').
    """

    def __init__(self, input_width: int, width: int, forget_bias: float = 1.0) -> None:
        super().__init__(input_width, width, parts=4)
        self.recurrent = recurrence(width, 4)
        self.peepholes = nn.Parameter(torch.empty(3, width).uniform_(-(width**-0.5), width**-0.5))  # of i, f, o
        nn.init.constant_(self.input.bias.chunk(4)[1], forget_bias)

    def advance(self, projected_BG: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        h, c = state
        i, f, g, o = (projected_BG + self.recurrent(h)).chunk(4, 1)
        seen_i, seen_f, seen_o = self.peepholes
        i, f = torch.sigmoid(i + seen_i * c), torch.sigmoid(f + seen_f * c)
        c = f * c + i * torch.tanh(g)
        h = torch.sigmoid(o + seen_o * c) * torch.tanh(c)
        return h, (h, c)
