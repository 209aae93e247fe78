"""The cells that torch has a fused kernel for: it unrolls them, and a step on its own uses the same weights by the
formula. B rows, T positions, D input features, W the cell's width, G gates * width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from transduce.modules.linear import linear
from transduce.processor import has_wide_vectors
from transduce.types import real_mask

LSTMState = tuple[Tensor, Tensor]  # h, c [B, W]

HOLD = 1e4  # more than what enters a gate ever is, so that the gate is 0 or 1 to the last bit
EVEN = 32  # one more input would do, but products in bfloat16 are up to twice as slow where widths are odd


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
        if x_BTD.device.type == "cpu" and torch.is_autocast_enabled("cpu") and not has_wide_vectors():
            # torch asks oneDNN for a kernel in bfloat16 that this processor has not, unless nothing is to be converted
            dtype = self.fused.all_weights[0][0].dtype
            h, c = (each.to(dtype) for each in state)
            with torch.autocast("cpu", enabled=dtype == torch.bfloat16):
                return self._unroll(x_BTD.to(dtype), (h, c), lengths_B)
        return self._unroll(x_BTD, state, lengths_B)

    def _unroll(self, x_BTD: Tensor, state: LSTMState, lengths_B: Tensor | None) -> tuple[Tensor, LSTMState]:
        h, c = state
        if lengths_B is None or x_BTD.device.type != "cpu":
            y_BTW, (h_1BW, c_1BW) = _packed(self.fused, x_BTD, (h[None], c[None]), lengths_B)
            return y_BTW, (h_1BW[0], c_1BW[0])
        y_BTW, c_BW = self._unroll_held(x_BTD, state, lengths_B)
        real_BTW, h_BW = _real(y_BTW, lengths_B)
        return real_BTW, (h_BW, c_BW)

    def _unroll_held(self, x_BTD: Tensor, state: LSTMState, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs of rows as they are, and the memory c where each ended. The kernel runs on into the padding and tells
        c at the very end alone; so there further inputs shut the input gate and open the forget gate, and c stays."""
        h, c = state
        padding_BT1 = ~real_mask(lengths_B, x_BTD.shape[1])[..., None]
        weight_GD, *others = self.fused.all_weights[0]
        hold_G = weight_GD.new_tensor([-HOLD, HOLD, 0.0, 0.0]).repeat_interleave(self.width)
        y_BTW, _, c_1BW = torch.lstm(
            torch.cat([x_BTD, padding_BT1.to(x_BTD.dtype).expand(-1, -1, EVEN)], -1),
            (h[None], c[None]),
            [torch.cat([weight_GD, hold_G[:, None].expand(-1, EVEN)], 1), *others],
            has_biases=True,
            num_layers=1,
            dropout=0.0,
            train=self.training,
            bidirectional=False,
            batch_first=True,
        )
        return y_BTW, c_1BW[0]


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
        y_BTW, h_1BW = self.fused(x_BTD, state[None])
        return (y_BTW, h_1BW[0]) if lengths_B is None else _real(y_BTW, lengths_B)


def _real(y_BTW: Tensor, lengths_B: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs without those of the padding, which the kernel has run on into, and each row's last one."""
    rows_B = torch.arange(len(lengths_B), device=lengths_B.device)
    return y_BTW * real_mask(lengths_B, y_BTW.shape[1])[..., None], y_BTW[rows_B, lengths_B - 1]


def _packed(fused: nn.LSTM, x_BTD: Tensor, state: LSTMState, lengths_B: Tensor | None) -> tuple[Tensor, LSTMState]:
    """Rows that end at different places packed: quick in cuDNN; on the CPU 2 to 20 times slower than as they are."""
    if lengths_B is None:
        y_BTW, state = fused(x_BTD, state)
        return y_BTW, state
    packed = pack_padded_sequence(x_BTD, lengths_B.cpu(), batch_first=True, enforce_sorted=False)
    y, state = fused(packed, state)
    return pad_packed_sequence(y, batch_first=True, total_length=x_BTD.shape[1])[0], state
