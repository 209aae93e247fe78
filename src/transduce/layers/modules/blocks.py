"""The layers of a Transformer: sublayers in residual connections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.protocols import AnyMixer, FeedForward, Mixer, Residual
from transduce.core.tree import Shared
from transduce.core.types import Factory, Memory, Padded
from transduce.layers.modules.attention.heads import CrossAttention, CrossKeys
from transduce.layers.modules.feedforward import PlainFeedForward

M = TypeVar("M")  # the mixer of one layer or of several


class Layer(nn.Module, Generic[M]):
    """Base class of a Transformer's layers: a mixer and a feed-forward network, each in a residual connection made by
    ``norm``. Subclasses define the call.
    """

    def __init__(self, width: int, mixer: M, feedforward: FeedForward, norm: Factory[Residual], dropout: float) -> None:
        super().__init__()
        self.mixer_residual = norm(width=width, dropout=dropout)
        self.mixer = mixer
        self.feedforward_residual = norm(width=width, dropout=dropout)
        self.feedforward = feedforward

    def transform(self, x: Tensor) -> Tensor:
        """Applies the feed-forward network, in its residual connection, to each position: [..., width] to the same
        shape.
        """
        around = self.feedforward_residual
        return around.leave(x, self.feedforward(around.enter(x)))


class EncoderLayer(Layer[Mixer]):
    """The layer of a Transformer's encoder: a mixer, then a feed-forward network, each in a residual connection. Maps
    [B, S, width] to the same shape.
    """

    def forward(self, x: Tensor, lengths_B: Tensor) -> Tensor:
        around = self.mixer_residual
        return self.transform(around.leave(x, self.mixer(Padded(around.enter(x), lengths_B))))


class CausalLayer(Layer[AnyMixer]):
    """The layer of a decoder without a memory: a causal mixer, then a feed-forward network, each in a residual
    connection.

    A call maps new positions [B, T, width] and the mixer's state to outputs of the same shape and the next state. It
    ignores ``memory_B11S``, which it takes so that all decoder layers are called alike.
    """

    def start(self, memory: Memory) -> object:
        states = memory.states
        return self.mixer.start(states.values.shape[0], states.values)

    def forward(self, x: Tensor, state: object, places_BT: Tensor, memory_B11S: Tensor) -> tuple[Tensor, object]:
        around = self.mixer_residual
        y, past = self.mixer(around.enter(x), state, places_BT)
        return self.transform(around.leave(x, y)), past


class ReadingLayer(Layer[M]):
    """Base class of layers with attention to a memory. The attention stands between the mixer and the feed-forward
    network, in its own residual connection.
    """

    def __init__(
        self,
        width: int,
        mixer: M,
        feedforward: FeedForward,
        memory: CrossAttention,
        norm: Factory[Residual],
        dropout: float,
    ) -> None:
        super().__init__(width, mixer, feedforward, norm, dropout)
        self.memory_residual = norm(width=width, dropout=dropout)
        self.memory = memory

    def read(self, x: Tensor, keys: CrossKeys, memory_B11S: Tensor) -> Tensor:
        around = self.memory_residual
        return around.leave(x, self.memory(around.enter(x), keys, memory_B11S))


@dataclass(frozen=True)
class DecoderLayerState:
    """The state of a ``DecoderLayer``: ``past`` is the state of its mixer, ``memory`` the keys and values of the
    memory, projected for this layer.
    """

    past: object
    memory: Shared[CrossKeys]


class DecoderLayer(ReadingLayer[AnyMixer]):
    """The layer of a Transformer's decoder: a causal mixer, attention to the memory, a feed-forward network, each in a
    residual connection.

    A call maps new positions [N, T, width] and a ``DecoderLayerState`` to outputs of the same shape and the next state.
    N is a multiple of the memory's B rows: the hypotheses of a source are adjacent.
    """

    def start(self, memory: Memory) -> DecoderLayerState:
        states = memory.states
        past = self.mixer.start(states.values.shape[0], states.values)
        return DecoderLayerState(past, Shared(self.memory.start(memory)))

    def forward(
        self, x: Tensor, state: DecoderLayerState, places_BT: Tensor, memory_B11S: Tensor
    ) -> tuple[Tensor, DecoderLayerState]:
        around = self.mixer_residual
        y, past = self.mixer(around.enter(x), state.past, places_BT)
        x = self.read(around.leave(x, y), state.memory.value, memory_B11S)
        return self.transform(x), DecoderLayerState(past, state.memory)


class InstantLayer(ReadingLayer[Mixer]):
    """The layer of a decoder that writes all positions at once: a mixer, attention to the memory, a feed-forward
    network, each in a residual connection. Maps [N, T, width] to the same shape.
    """

    def forward(self, x: Tensor, lengths_N: Tensor, keys: CrossKeys, memory_B11S: Tensor) -> Tensor:
        around = self.mixer_residual
        x = around.leave(x, self.mixer(Padded(around.enter(x), lengths_N)))
        return self.transform(self.read(x, keys, memory_B11S))


def sublayers(
    layers: int,
    width: int,
    heads: int,
    dropout: float,
    mixer: Factory[M] | Sequence[Factory[M]],
    feedforward: Factory[FeedForward] | int,
) -> Iterator[tuple[M, FeedForward]]:
    """Builds and yields a new mixer and a new feed-forward network for each layer, lowest first.

    ``mixer`` is one factory for all layers, or a list with one factory for each. ``feedforward`` is a factory for all
    layers, or the hidden width of ``PlainFeedForward``. The first step of the iteration raises UserError if a list of
    mixers has another length than ``layers``.
    """
    if isinstance(feedforward, int):
        feedforward = partial(PlainFeedForward, hidden=feedforward)
    mixers = (mixer,) * layers if callable(mixer) else mixer
    if len(mixers) != layers:
        raise UserError(f"mixer has {len(mixers)} entries, the stack {layers} layers: give one for all, or one a layer")
    for make in mixers:
        yield make(width=width, heads=heads, dropout=dropout), feedforward(width=width, dropout=dropout)
