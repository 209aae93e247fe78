"""Layers of a Transformer: sublayers in residual connections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor, nn

from transduce.modules.attention.heads import CrossAttention, CrossKeys
from transduce.modules.feedforward import FeedForward
from transduce.modules.residual import Residual
from transduce.tree import Shared
from transduce.types import CausalMixer, Factory, Memory, Mixer, Padded

T = TypeVar("T")


class EncoderLayer(nn.Module):
    """A mixer, then a feed-forward network, each in a residual connection."""

    def __init__(
        self, width: int, mixer: Mixer, feedforward: FeedForward, norm: Factory[Residual], dropout: float
    ) -> None:
        super().__init__()
        self.mixer_residual = norm(width=width, dropout=dropout)
        self.mixer = mixer
        self.feedforward_residual = norm(width=width, dropout=dropout)
        self.feedforward = feedforward

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
        mixer: CausalMixer[Any],
        memory: CrossAttention,
        feedforward: FeedForward,
        norm: Factory[Residual],
        dropout: float,
    ) -> None:
        super().__init__()
        self.mixer_residual = norm(width=width, dropout=dropout)
        self.mixer = mixer
        self.memory_residual = norm(width=width, dropout=dropout)
        self.memory = memory
        self.feedforward_residual = norm(width=width, dropout=dropout)
        self.feedforward = feedforward

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


class InstantLayer(nn.Module):
    """A mixer, attention to the memory, a feed-forward network, each in a residual connection: a decoder's layer that
    sees all positions at once."""

    def __init__(
        self,
        width: int,
        mixer: Mixer,
        memory: CrossAttention,
        feedforward: FeedForward,
        norm: Factory[Residual],
        dropout: float,
    ) -> None:
        super().__init__()
        self.mixer_residual = norm(width=width, dropout=dropout)
        self.mixer = mixer
        self.memory_residual = norm(width=width, dropout=dropout)
        self.memory = memory
        self.feedforward_residual = norm(width=width, dropout=dropout)
        self.feedforward = feedforward

    def forward(self, x: Tensor, lengths_N: Tensor, keys: CrossKeys, memory_B11S: Tensor) -> Tensor:
        around = self.mixer_residual
        x = around.leave(x, self.mixer(Padded(around.enter(x), lengths_N)))
        around = self.memory_residual
        x = around.leave(x, self.memory(around.enter(x), keys, memory_B11S))
        around = self.feedforward_residual
        return around.leave(x, self.feedforward(around.enter(x)))


def one_each(mixer: Factory[T] | Sequence[Factory[T]], layers: int) -> Sequence[Factory[T]]:
    """A mixer for each layer: one for all, or as many as there are layers, the first for the lowest."""
    if callable(mixer):
        return (mixer,) * layers
    if len(mixer) != layers:
        raise ValueError(f"mixer has {len(mixer)} entries, the stack {layers} layers: give one for all, or one a layer")
    return mixer
