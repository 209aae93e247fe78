"""Decoders that are a stack of equal layers, each with its own past."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from transduce.core.protocols import AnyMixer, FeedForward, Positions, Residual
from transduce.core.tree import Shared
from transduce.core.types import Factory, Memory, MemoryWidths
from transduce.layers.modules import module_list
from transduce.layers.modules.attention.energies import mask_bias
from transduce.layers.modules.attention.heads import CrossAttention
from transduce.layers.modules.blocks import CausalLayer, DecoderLayer, sublayers
from transduce.layers.modules.dropout import Dropout
from transduce.layers.modules.embedding import Readout, TokenEmbedding
from transduce.layers.modules.mixers.attention import CausalSelfAttention
from transduce.layers.modules.residual import PreNorm


@dataclass(frozen=True)
class StackedState:
    """The position of each row's next token [B], from 0, the state of each layer, and the mask [B, S] of the memory,
    True at real states.
    """

    place_B: Tensor
    layers: tuple[object, ...]
    memory_mask: Shared[Tensor]


class TransformerDecoder(nn.Module):
    """The decoder of Vaswani et al. 2017. ``norm`` chooses pre-norm (the default) or post-norm.

    ``mixer`` is one causal mixer for all layers, or an array with one per layer, the lowest first; the default is
    self-attention. ``feedforward`` is the hidden width of ``PlainFeedForward``, or a table that chooses another
    network. If the memory has width 0, as in a language model, the layers have no attention to a memory (Liu et al.
    2018, "decoder-only"). Raises UserError for an array of another length than ``layers``.
    """

    def __init__(
        self,
        target_vocabulary: int,
        memory: MemoryWidths,
        positions: Factory[Positions],
        width: int = 256,
        layers: int = 3,
        heads: int = 4,
        feedforward: Factory[FeedForward] | int = 1024,
        dropout: float = 0.1,
        norm: Factory[Residual] = PreNorm,
        mixer: Factory[AnyMixer] | Sequence[Factory[AnyMixer]] = CausalSelfAttention,
    ) -> None:
        super().__init__()
        self.width = width
        self.embedding = TokenEmbedding(target_vocabulary, width, scaled=True)
        self.positions = positions(width=width)
        self.dropout = Dropout(dropout)
        self.layers = module_list(
            DecoderLayer(width, mix, transform, CrossAttention(width, memory.states, heads, dropout), norm, dropout)
            if memory.states
            else CausalLayer(width, mix, transform, norm, dropout)
            for mix, transform in sublayers(layers, width, heads, dropout, mixer, feedforward)
        )
        self.norm = norm(width=width, dropout=dropout).final()
        self.projection = Readout(width, target_vocabulary)

    def start(self, memory: Memory) -> StackedState:
        first_B = torch.zeros_like(memory.states.lengths)
        return StackedState(first_B, tuple(layer.start(memory) for layer in self.layers), Shared(memory.states.mask))

    def extend(self, tokens_BT: Tensor, state: StackedState) -> tuple[Tensor, StackedState]:
        T = tokens_BT.shape[1]
        places_BT = state.place_B[:, None] + torch.arange(T, device=tokens_BT.device)
        x_BTD = self.dropout(self.embedding(tokens_BT) + self.positions(places_BT))
        memory_B11S = mask_bias(state.memory_mask.value, x_BTD.dtype)[:, None, None]
        layers = []
        for layer, before in zip(self.layers, state.layers, strict=True):
            x_BTD, after = layer(x_BTD, before, places_BT, memory_B11S)
            layers.append(after)
        return self.norm(x_BTD), StackedState(state.place_B + T, tuple(layers), state.memory_mask)

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        logits: Tensor = self.projection(output, candidates)
        return logits
