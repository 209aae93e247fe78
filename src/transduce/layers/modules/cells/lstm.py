"""Long short-term memory: with torch's fused kernel, without one of its gates, and with peepholes.

B rows, T positions, D input features, W the cell's width, G gates * width.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from transduce.compute.processor import has_wide_vectors
from transduce.core.errors import UserError
from transduce.core.types import real_mask
from transduce.layers.modules.cells import torch_operators
from transduce.layers.modules.cells.looped import LoopedCell, real_outputs, recurrence
from transduce.layers.modules.linear import linear

LSTMState = tuple[Tensor, Tensor]  # h, c [B, W]

HOLD = 1e4  # far larger than any gate's input: the sigmoid is exactly 0 or 1
EVEN = 32  # one extra input is enough, but odd widths make bfloat16 products up to twice as slow
GATES = ("input", "forget", "output")


class LSTM(nn.Module):
    """Long short-term memory (Hochreiter and Schmidhuber 1997; forget gate of Gers et al. 2000):

    i, f, o = sigmoid(W x + U h + b), g = tanh(W x + U h + b); c' = f c + i g; h' = o tanh(c'). x is the input and (h,
    c) the state. Each formula has its own W, U and b. Weights are drawn uniformly from +-1/sqrt(width). The bias of the
    forget gate f starts at ``forget_bias`` (Jozefowicz et al. 2015), the other biases at 0.
    """

    gate_names = ("forget", "input", "output")  # in the order of a step's sigmoids

    def __init__(self, input_width: int, width: int, forget_bias: float = 1.0) -> None:
        super().__init__()
        self.width = width
        self.projected_width = 4 * width
        self.fused: Any = nn.LSTM(input_width, width, batch_first=True)
        _, _, bias_ih, bias_hh = self.fused.all_weights[0]
        nn.init.zeros_(bias_hh)
        nn.init.zeros_(bias_ih)
        nn.init.constant_(bias_ih[width : 2 * width], forget_bias)

    def start(self, rows: int, like: Tensor) -> LSTMState:
        return like.new_zeros(rows, self.width), like.new_zeros(rows, self.width)

    def output(self, state: LSTMState) -> Tensor:
        return state[0]

    def project(self, x_BTD: Tensor) -> Tensor:
        return linear(x_BTD, self.fused.weight_ih_l0, self.fused.bias_ih_l0)

    def step(self, projected_BG: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        h, c = state
        i, f, g, o = (projected_BG + linear(h, self.fused.weight_hh_l0, self.fused.bias_hh_l0)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, (h, c)

    def unroll(self, x_BTD: Tensor, state: LSTMState, lengths_B: Tensor | None = None) -> tuple[Tensor, LSTMState]:
        if lengths_B is None and torch_operators.is_search_step(x_BTD):
            y_BW, state = self.step(self.project(x_BTD)[:, 0], state)
            return y_BW[:, None], state
        if x_BTD.device.type == "cpu" and torch.is_autocast_enabled("cpu") and not has_wide_vectors():
            # torch asks oneDNN for a bfloat16 kernel that this processor lacks, unless the inputs need no conversion
            dtype = self.fused.all_weights[0][0].dtype
            h, c = (each.to(dtype) for each in state)
            with torch.autocast("cpu", enabled=dtype == torch.bfloat16):
                return self._unroll(x_BTD.to(dtype), (h, c), lengths_B)
        return self._unroll(x_BTD, state, lengths_B)

    def _unroll(self, x_BTD: Tensor, state: LSTMState, lengths_B: Tensor | None) -> tuple[Tensor, LSTMState]:
        h, c = state
        if lengths_B is None and torch_operators.is_exporting():
            y_BTW, h, c = torch_operators.lstm(x_BTD, h, c, self.fused.all_weights[0])
            return y_BTW, (h, c)
        if lengths_B is None or x_BTD.device.type != "cpu":
            y_BTW, (h_1BW, c_1BW) = _packed(self.fused, x_BTD, (h[None], c[None]), lengths_B)
            return y_BTW, (h_1BW[0], c_1BW[0])
        y_BTW, c_BW = self._unroll_held(x_BTD, state, lengths_B)
        real_BTW, h_BW = real_outputs(y_BTW, lengths_B)
        return real_BTW, (h_BW, c_BW)

    def _unroll_held(self, x_BTD: Tensor, state: LSTMState, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
        """The outputs [B, T, W], which have no meaning at padding, and each row's memory cell c [B, W] after its last
        real position.

        The kernel runs on into the padding and returns c only for position T. So extra inputs close the input gate and
        open the forget gate at padding, which keeps c unchanged.
        """
        h, c = state
        padding_BT1 = ~real_mask(lengths_B, x_BTD.shape[1])[..., None]
        weight_GD, *others = self.fused.all_weights[0]
        hold_G = weight_GD.new_tensor([-HOLD, HOLD, 0.0, 0.0]).repeat_interleave(self.width)
        held_BTD = torch.cat([x_BTD, padding_BT1.to(x_BTD.dtype).expand(-1, -1, EVEN)], -1)
        weights = [torch.cat([weight_GD, hold_G[:, None].expand(-1, EVEN)], 1), *others]
        if torch_operators.is_exporting():
            y_BTW, _, c_BW = torch_operators.lstm(held_BTD, h, c, weights)
            return y_BTW, c_BW
        y_BTW, _, c_1BW = torch.lstm(
            held_BTD,
            (h[None], c[None]),
            weights,
            has_biases=True,
            num_layers=1,
            dropout=0.0,
            train=self.training,
            bidirectional=False,
            batch_first=True,
        )
        return y_BTW, c_1BW[0]


def _packed(fused: nn.LSTM, x_BTD: Tensor, state: LSTMState, lengths_B: Tensor | None) -> tuple[Tensor, LSTMState]:
    """Runs torch's LSTM on packed rows, so that it skips padding. Returns outputs [B, T, W], zeros at padding, and the
    state after each row's last real position, h and c [1, B, W]. Without ``lengths_B``, all positions are real and
    nothing is packed. Packing is fast in cuDNN; on the CPU it is 2 to 20 times slower than padded rows.
    """
    if lengths_B is None:
        y_BTW, state = fused(x_BTD, state)
        return y_BTW, state
    packed = pack_padded_sequence(x_BTD, lengths_B.cpu(), batch_first=True, enforce_sorted=False)
    y, state = fused(packed, state)
    return pad_packed_sequence(y, batch_first=True, total_length=x_BTD.shape[1])[0], state


class LoopedLSTM(LoopedCell[LSTMState]):
    """Base class of LSTM variants without a fused kernel. The state is (h, c), [B, W] each: the output h and the memory
    cell c.
    """

    def start(self, rows: int, like: Tensor) -> LSTMState:
        return like.new_zeros(rows, self.width), like.new_zeros(rows, self.width)

    def output(self, state: LSTMState) -> Tensor:
        return state[0]


class LSTMWithout(LoopedLSTM):
    """An LSTM without one of its gates (Jozefowicz et al. 2015; Greff et al. 2017). ``gate`` is "input", "forget" or
    "output"; its value i, f or o is always 1:

    i, f, o = sigmoid(W x + U h + b), g = tanh(W x + U h + b); c' = f c + i g; h' = o tanh(c').

    x is the input and (h, c) the state. Each formula has its own W, U and b. ``forget_bias`` is the initial bias of the
    forget gate, and has no effect without this gate. Raises UserError for another ``gate``.
    """

    def __init__(
        self, input_width: int, width: int, gate: Literal["forget", "input", "output"], forget_bias: float = 1.0
    ) -> None:
        super().__init__(input_width, width, parts=3)
        if gate not in GATES:
            raise UserError(f'gate = "{gate}": the gates of an LSTM are {", ".join(GATES)}')
        self.gate_names = tuple(name for name in GATES if name != gate)
        self.recurrent = recurrence(width, 3)
        if gate != "forget":
            nn.init.constant_(self.input.bias.chunk(3)[self.gate_names.index("forget")], forget_bias)

    def advance(self, projected_BG: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        h, c = state
        *gates, g = (projected_BG + self.recurrent(h)).chunk(3, 1)
        opened = {name: torch.sigmoid(gate) for name, gate in zip(self.gate_names, gates, strict=True)}
        i, f, o = (opened.get(name, 1.0) for name in GATES)
        c = f * c + i * torch.tanh(g)
        h = o * torch.tanh(c)
        return h, (h, c)


class PeepholeLSTM(LoopedLSTM):
    """An LSTM whose gates also read the memory cell c through weights p, elementwise (Gers and Schmidhuber 2000):

    i, f = sigmoid(W x + U h + b + p c), c' = f c + i tanh(W x + U h + b); o = sigmoid(W x + U h + b + p c'), h' = o
    tanh(c').

    x is the input and (h, c) the state. Each gate has its own W, U, b and p, and the term in tanh its own W, U and b.
    ``forget_bias`` is the initial bias of the forget gate f.
    """

    gate_names = ("input", "forget", "output")  # in the order of a step's sigmoids

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
