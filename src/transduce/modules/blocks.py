"""Layers of a Transformer: sublayers in residual connections, norms before or after them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from transduce.modules.dropout import Dropout
from transduce.modules.heads import CrossAttention, CrossKeys
from transduce.modules.linear import projection
from transduce.tree import Shared
from transduce.types import CausalMixer, Factory, Memory, Mixer, Padded

T = TypeVar("T")
Norm = Literal["pre", "post"]


class Residual(nn.Module):
    """A connection around a sublayer f.

    post-norm: norm(x + f(x)) (Vaswani et al. 2017, section 3.1); pre-norm: x + f(norm(x)) (Xiong et al. 2020), which
    trains without a long warm-up. ``enter`` is what f sees, ``leave`` what comes out.
    """

    def __init__(self, width: int, norm: Norm, dropout: float) -> None:
        super().__init__()
        self.pre = norm == "pre"
        self.norm = nn.LayerNorm(width)
        self.dropout = Dropout(dropout)

    def enter(self, x: Tensor) -> Tensor:
        return self.norm(x) if self.pre else x

    def leave(self, x: Tensor, y: Tensor) -> Tensor:
        total: Tensor = x + self.dropout(y)
        return total if self.pre else self.norm(total)


class FeedForward(nn.Module):
    """W2 relu(W1 x) at every position: Vaswani et al. 2017, eq. 2."""

    def __init__(self, width: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.widen = projection(width, hidden)
        self.dropout = Dropout(dropout)
        self.narrow = projection(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.narrow(self.dropout(torch.relu_(self.widen(x))))
        return y


class EncoderLayer(nn.Module):
    """A mixer, then a feed-forward network, each in a residual connection."""

    def __init__(self, width: int, mixer: Mixer, feedforward: int, dropout: float, norm: Norm) -> None:
        super().__init__()
        self.mixer_residual = Residual(width, norm, dropout)
        self.mixer = mixer
        self.feedforward_residual = Residual(width, norm, dropout)
        self.feedforward = FeedForward(width, feedforward, dropout)

    def forward(self, x: Tensor, lengths_B: Tensor) -> Tensor:
        around = self.mixer_residual
        x = around.leave(x, self.mixer(Padded(around.enter(x), lengths_B)))
        around = self.feedforward_residual
        return around.leave(x, self.feedforward(around.enter(x)))


@dataclass(frozen=True)
class DecoderLayerState:
    """What a layer's mixer keeps of its own past, and the memory as the layer reads it."""

    past: Any
    memory: Shared[CrossKeys]


class DecoderLayer(nn.Module):
    """A causal mixer, attention to the memory, a feed-forward network, each in a residual connection."""

    def __init__(
        self,
        width: int,
        memory_width: int,
        mixer: CausalMixer[Any],
        heads: int,
        feedforward: int,
        dropout: float,
        norm: Norm,
    ) -> None:
        super().__init__()
        self.mixer_residual = Residual(width, norm, dropout)
        self.mixer = mixer
        self.memory_residual = Residual(width, norm, dropout)
        self.memory = CrossAttention(width, memory_width, heads, dropout)
        self.feedforward_residual = Residual(width, norm, dropout)
        self.feedforward = FeedForward(width, feedforward, dropout)

    def start(self, memory: Memory) -> DecoderLayerState:
        states = memory.states
        past = self.mixer.start(states.values.shape[0], states.values)
        return DecoderLayerState(past, Shared(self.memory.start(memory)))

    def forward(
        self, x: Tensor, state: DecoderLayerState, places_BT: Tensor, memory_B11S: Tensor
    ) -> tuple[Tensor, DecoderLayerState]:
        around = self.mixer_residual
        y, past = self.mixer(around.enter(x), state.past, places_BT)
        x = around.leave(x, y)
        around = self.memory_residual
        x = around.leave(x, self.memory(around.enter(x), state.memory.value, memory_B11S))
        around = self.feedforward_residual
        x = around.leave(x, self.feedforward(around.enter(x)))
        return x, DecoderLayerState(past, state.memory)


def one_each(mixer: Factory[T] | Sequence[Factory[T]], layers: int) -> Sequence[Factory[T]]:
    """A mixer for each layer: one for all, or as many as there are layers, the first for the lowest."""
    if callable(mixer):
        return (mixer,) * layers
    if len(mixer) != layers:
        raise ValueError(f"mixer has {len(mixer)} entries, the stack {layers} layers: give one for all, or one a layer")
    return mixer
