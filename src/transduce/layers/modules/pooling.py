"""Poolers: they reduce many positions to one vector."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from transduce.core import tree
from transduce.core.types import Memory, MemoryWidths, Padded
from transduce.layers.modules.linear import projection

Pooling = Literal["mean", "sum", "max"]


def pool(x: Padded, pooling: Pooling) -> Tensor:
    """[B, D]: the mean, sum or maximum of x [B, S, D] over each row's real positions. Each row needs at least one.

    For mean and sum, values at padding must be finite.
    """
    if pooling == "max":
        return x.values.masked_fill(~x.mask[..., None], float("-inf")).amax(1)
    # As a product: a bfloat16 sum along an axis takes twenty times as long on the CPU.
    summed_BD = torch.matmul(x.mask[:, None].to(x.values.dtype), x.values)[:, 0]
    return summed_BD if pooling == "sum" else summed_BD / x.lengths[:, None]


class LastState(nn.Module):
    """A pooler for recurrent encoders: concatenates the leaves of the memory's summary to one vector [B, width].

    For a recurrent encoder they are the last states of all layers and directions (of an LSTM, both h and c). Other
    encoders describe their summary in their docstrings; often it is the average of the states.
    """

    def __init__(self, memory: MemoryWidths) -> None:
        super().__init__()
        self.width = sum(memory.summary)

    def forward(self, memory: Memory) -> Tensor:
        return torch.cat(tree.leaves(memory.summary), -1)


class MeanPooling(nn.Module):
    """A pooler: the average of ``Memory.read_BSD`` over the real positions, [B, width]. The EOS of a text counts."""

    def __init__(self, memory: MemoryWidths) -> None:
        super().__init__()
        self.width = memory.states

    def forward(self, memory: Memory) -> Tensor:
        return pool(Padded(memory.read_BSD, memory.states.lengths), "mean")


class MaxPooling(nn.Module):
    """A pooler: the maximum of each feature of ``Memory.read_BSD`` over the real positions, EOS among them: [B, width].

    Collobert et al. 2011; over convolutions Kim 2014.
    """

    def __init__(self, memory: MemoryWidths) -> None:
        super().__init__()
        self.width = memory.states

    def forward(self, memory: Memory) -> Tensor:
        return pool(Padded(memory.read_BSD, memory.states.lengths), "max")


class AttentionPooling(nn.Module):
    """A pooler with attention weights: sum_s a_s h_s with a = softmax_s(u' tanh(W h_s + b)) (Yang et al. 2016, section
    2.2).

    Maps a memory with states h to [B, width]. If the memory has separate values, the sum is over the values, while the
    weights come from the states. ``hidden`` is the width of W h_s.
    """

    def __init__(self, memory: MemoryWidths, hidden: int = 64) -> None:
        super().__init__()
        self.width = memory.states
        self.linear = projection(memory.states, hidden)
        self.query = projection(hidden, 1, bias=False)

    def forward(self, memory: Memory) -> Tensor:
        energy_BS1 = self.query(torch.tanh(self.linear(memory.states.values)))
        weights_BS1 = energy_BS1.masked_fill(~memory.states.mask[..., None], float("-inf")).softmax(1)
        return torch.matmul(weights_BS1.transpose(1, 2), memory.read_BSD)[:, 0]
