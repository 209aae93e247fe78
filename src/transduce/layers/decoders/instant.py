"""Decoders that write all positions at once. N rows, T positions, D features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import FeedForward, Mixer, Residual
from transduce.core.tree import Shared
from transduce.core.types import Factory, Memory, MemoryWidths
from transduce.layers.modules import module_list
from transduce.layers.modules.attention.energies import mask_bias
from transduce.layers.modules.attention.heads import CrossAttention, CrossKeys
from transduce.layers.modules.blocks import InstantLayer, sublayers
from transduce.layers.modules.dropout import Dropout
from transduce.layers.modules.embedding import Readout
from transduce.layers.modules.linear import projection
from transduce.layers.modules.mixers.attention import SelfAttention
from transduce.layers.modules.positions import Sinusoidal
from transduce.layers.modules.residual import PreNorm


class DenseDecoder(nn.Module):
    """A decoder of one dense layer that writes all positions at once: relu(W_t s + b_t) at position t, where s
    concatenates the parts of the memory's summary. Each position has its own weights W_t and b_t.

    After an LSTM encoder this is LSTM-Dense of forecasting, after a dense encoder Dense-Dense. It reads only the
    summary of the source. Its output at t does not depend on the output's length, which is at most ``max_length``.
    Raises UserError if this is less than 1.
    """

    def __init__(
        self,
        target_vocabulary: int,
        memory: MemoryWidths,
        max_length: int = 255,
        width: int = 256,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.max_length = check_max_length(max_length)
        self.width = width
        self.linear = projection(sum(memory.summary), width, max_length)
        self.dropout = Dropout(dropout)
        self.projection = Readout(width, target_vocabulary)

    def start(self, memory: Memory) -> Tensor:
        return torch.cat(tree.leaves(memory.summary), -1)

    def forward(self, state: Tensor, lengths_N: Tensor, positions: int) -> Tensor:
        size = positions * self.width
        x_NE = nn.functional.linear(state, self.linear.weight[:size], self.linear.bias[:size])
        x_NTD: Tensor = self.dropout(x_NE.view(-1, positions, self.width).relu())
        return x_NTD

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        logits: Tensor = self.projection(output, candidates)
        return logits


@dataclass(frozen=True)
class StackedKeys:
    """The memory, projected once for all layers of ``InstantTransformer``: the keys and values of each layer, and the
    mask [B, S] of the memory's real states.
    """

    layers: tuple[CrossKeys, ...]
    mask_BS: Tensor


class InstantTransformer(nn.Module):
    """A Transformer decoder without a causal mask: every position reads all real positions of its row and of the memory
    (Gu et al. 2018).

    The input at position t of n is W PE(t) + b + V PE(n - 1 - t) + c: its places from the start and from the end, both
    from 0. It reads no tokens. ``mixer`` is one for all layers, or an array with one per layer, the lowest first.
    ``feedforward`` is the hidden width of ``PlainFeedForward``, or a table that chooses another network. Raises
    UserError if ``max_length`` is less than 1, or for an array of another length than ``layers``.
    """

    def __init__(
        self,
        target_vocabulary: int,
        memory: MemoryWidths,
        max_length: int = 255,
        width: int = 256,
        layers: int = 3,
        heads: int = 4,
        feedforward: Factory[FeedForward] | int = 1024,
        dropout: float = 0.1,
        norm: Factory[Residual] = PreNorm,
        mixer: Factory[Mixer] | Sequence[Factory[Mixer]] = SelfAttention,
    ) -> None:
        super().__init__()
        self.max_length = check_max_length(max_length)
        self.positions = Sinusoidal(width)
        self.ends = projection(width, width, 2)  # W, then V
        self.dropout = Dropout(dropout)
        self.layers = module_list(
            InstantLayer(width, mix, transform, CrossAttention(width, memory.states, heads, dropout), norm, dropout)
            for mix, transform in sublayers(layers, width, heads, dropout, mixer, feedforward)
        )
        self.norm = norm(width=width, dropout=dropout).final()
        self.projection = Readout(width, target_vocabulary)

    def start(self, memory: Memory) -> Shared[StackedKeys]:
        return Shared(StackedKeys(tuple(layer.memory.start(memory) for layer in self.layers), memory.states.mask))

    def forward(self, state: Shared[StackedKeys], lengths_N: Tensor, positions: int) -> Tensor:
        return self.stack(self.places(lengths_N, positions), state, lengths_N)

    def stack(self, x_NTD: Tensor, state: Shared[StackedKeys], lengths_N: Tensor) -> Tensor:
        """The features [N, T, D] of outputs of ``lengths_N`` tokens. ``x_NTD`` are the inputs of the first layer."""
        # An empty row gets one position that is never read: a softmax over no positions would be nan.
        seen_N = lengths_N.clamp(min=1)
        x_NTD = self.dropout(x_NTD)
        memory_B11S = mask_bias(state.value.mask_BS, x_NTD.dtype)[:, None, None]
        for layer, keys in zip(self.layers, state.value.layers, strict=True):
            x_NTD = layer(x_NTD, seen_N, keys, memory_B11S)
        y_NTD: Tensor = self.norm(x_NTD)
        return y_NTD

    def places(self, lengths_N: Tensor, positions: int) -> Tensor:
        """The inputs [N, T, D] of the first layer at T = ``positions`` positions, before dropout, for outputs of
        ``lengths_N`` tokens. At padding they have no meaning. The sinusoids are projected once for all rows.
        """
        place_T = torch.arange(positions, device=lengths_N.device)
        after_NT = (lengths_N[:, None] - 1 - place_T).clamp(min=0)
        from_start_TD, from_end_TD = self.ends(self.positions(place_T)).chunk(2, -1)
        place_NTD: Tensor = from_start_TD + nn.functional.embedding(after_NT, from_end_TD)
        return place_NTD

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        logits: Tensor = self.projection(output, candidates)
        return logits


def check_max_length(max_length: int) -> int:
    if max_length < 1:
        raise UserError(f"max_length = {max_length}: an output of at least one token was expected")
    return max_length
