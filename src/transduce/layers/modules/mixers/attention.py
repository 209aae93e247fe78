"""Self-attention: every position reads positions of its own row. B rows, H heads, T queries, S keys, D features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from transduce.core.protocols import Relative
from transduce.core.tree import Buffer
from transduce.core.types import Factory, Padded
from transduce.layers.modules.attention.energies import causal_bias, mask_bias
from transduce.layers.modules.attention.heads import Heads, check_heads, merge_heads, split_heads
from transduce.layers.modules.attention.pruning import keep_inputs, keep_outputs, places
from transduce.layers.modules.attention.relative import NoRelative
from transduce.layers.modules.linear import projection


class OwnRow(nn.Module):
    """Base class of self-attention: the projections of a row to queries, keys and values, and the output projection."""

    causal: bool

    def __init__(self, width: int, heads: int, dropout: float, relative: Factory[Relative] = NoRelative) -> None:
        super().__init__()
        check_heads(width, heads)
        self.relative = relative(heads=heads, width=width // heads, causal=self.causal)
        self.count, self.features = heads, width // heads
        self.project = projection(width, width, 3)
        self.heads = Heads(dropout)
        self.out = projection(width, width)

    def keep(self, heads: Sequence[int]) -> None:
        """Removes all heads but these (``keep_heads``)."""
        self.relative.keep(heads)
        keep_outputs(self.project, places(heads, self.features, 3, self.count))
        keep_inputs(self.out, places(heads, self.features))
        self.count = len(heads)


class SelfAttention(OwnRow):
    """The self-attention of an encoder: every position reads every real position of its row. Maps [B, S, width] to the
    same shape.
    """

    causal = False

    def forward(self, x: Padded) -> Tensor:
        query, key, value = split_heads(self.project(x.values), 3, self.count)
        places_1S = torch.arange(x.values.shape[1], device=x.values.device)[None]
        query, key = self.relative.turn(query, key, places_1S)
        bias = self.relative.bias(mask_bias(x.mask, x.values.dtype)[:, None, None], query, places_1S)
        read = self.relative.read(places_1S, key.shape[2])
        y: Tensor = self.out(merge_heads(self.heads(query, key, value, bias, read)))
        return y


@dataclass(frozen=True)
class Past:
    """The state of ``CausalSelfAttention``: the keys and the values of the positions so far, a buffer of [B, H,
    capacity, D] each (``tree.Buffer``).
    """

    key: Buffer
    value: Buffer


class CausalSelfAttention(OwnRow):
    """The self-attention of a decoder: every position reads itself and the positions before it. The state keeps their
    keys and values.
    """

    causal = True

    def start(self, rows: int, like: Tensor) -> Past:
        empty = Buffer(like.new_zeros(rows, self.count, 0, self.features))
        return Past(empty, empty)

    def forward(self, x_BTD: Tensor, state: Past, places_BT: Tensor) -> tuple[Tensor, Past]:
        if not state.key.capacity:
            places_BT = places_BT[:1]  # every row starts at 0: one bias serves all rows
        query, key, value = split_heads(self.project(x_BTD), 3, self.count)
        query, key = self.relative.turn(query, key, places_BT)
        past = Past(state.key.write(key, places_BT), state.value.write(value, places_BT))
        positions = past.key.capacity
        bias = self.relative.bias(causal_bias(places_BT, positions, x_BTD.dtype), query, places_BT)
        read = self.relative.read(places_BT, positions)
        y_BTD: Tensor = self.out(merge_heads(self.heads(query, past.key.values, past.value.values, bias, read)))
        return y_BTD, past
