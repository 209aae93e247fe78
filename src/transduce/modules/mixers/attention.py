"""Self-attention: every position reads others of its own row. B rows, H heads, T queries, S keys, D features."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from transduce.modules.attention.heads import Heads, check_heads, merge_heads, split_heads
from transduce.modules.attention.masks import causal_bias, mask_bias
from transduce.modules.attention.relative import NoRelative, Relative
from transduce.modules.linear import projection
from transduce.types import Factory, Padded


class OwnRow(nn.Module):
    """Projections to queries, keys and values of the same row, and back."""

    causal: bool

    def __init__(self, width: int, heads: int, dropout: float, relative: Factory[Relative] = NoRelative) -> None:
        super().__init__()
        check_heads(width, heads)
        self.relative = relative(heads=heads, width=width // heads, causal=self.causal)
        self.count = heads
        self.project = projection(width, width, 3)
        self.heads = Heads(dropout)
        self.out = projection(width, width)


class SelfAttention(OwnRow):
    """Every position reads every real position of its own row, as an encoder may."""

    causal = False

    def forward(self, x: Padded) -> Tensor:
        query, key, value = split_heads(self.project(x.values), 3, self.count)
        places_1S = torch.arange(x.values.shape[1], device=x.values.device)[None]
        query, key = self.relative.turn(query, key, places_1S)
        bias = self.relative.bias(mask_bias(x.mask, x.values.dtype)[:, None, None], query, places_1S)
        read = self.relative.read(places_1S, key.shape[2])
        y: Tensor = self.out(merge_heads(self.heads(query, key, value, bias, read)))
        return y


ROOM = 8  # positions made at a time


@dataclass(frozen=True)
class Past:
    """Keys and values of the positions so far, at their own places on axis S; at most ``filled`` are in use."""

    key_BHSD: Tensor
    value_BHSD: Tensor
    filled: int

    def extend(self, key_BHTD: Tensor, value_BHTD: Tensor, places_BT: Tensor) -> Past:
        """New positions written at ``places_BT``. Without gradients in place, into a buffer with room for a few more:
        not for many, as a beam that reorders its rows copies all of it."""
        if not self.filled:
            return Past(key_BHTD, value_BHTD, key_BHTD.shape[2])
        filled = self.filled + key_BHTD.shape[2]
        if torch.is_grad_enabled():
            index = places_BT[:, None, :, None].expand_as(key_BHTD)
            key, value = (_room(old, filled) for old in (self.key_BHSD, self.value_BHSD))
            return Past(key.scatter(2, index, key_BHTD), value.scatter(2, index, value_BHTD), filled)
        key, value = self.key_BHSD, self.value_BHSD
        if key.shape[2] < filled:
            # rows of unequal depth are joined as if all were as deep as the deepest, which may have gone since
            filled = int(places_BT.max()) + 1
            key, value = (_room(old, filled + ROOM) for old in (key, value))
        rows_B1 = torch.arange(len(key), device=key.device)[:, None]
        key[rows_B1, :, places_BT], value[rows_B1, :, places_BT] = key_BHTD.transpose(1, 2), value_BHTD.transpose(1, 2)
        return Past(key, value, filled)


def _room(old_BHSD: Tensor, positions: int) -> Tensor:
    return nn.functional.pad(old_BHSD, (0, 0, 0, max(0, positions - old_BHSD.shape[2])))


class CausalSelfAttention(OwnRow):
    """Every position reads itself and those before it, which it keeps: ``Past`` is the state."""

    causal = True

    def start(self, rows: int, like: Tensor) -> Past:
        D = self.out.weight.shape[0] // self.count
        nothing_BHSD = like.new_zeros(rows, self.count, 0, D)
        return Past(nothing_BHSD, nothing_BHSD, 0)

    def forward(self, x_BTD: Tensor, state: Past, places_BT: Tensor) -> tuple[Tensor, Past]:
        if not state.filled:
            places_BT = places_BT[:1]  # every row begins: one bias for all
        query, key, value = split_heads(self.project(x_BTD), 3, self.count)
        query, key = self.relative.turn(query, key, places_BT)
        state = state.extend(key, value, places_BT)
        keys, values = state.key_BHSD[:, :, : state.filled], state.value_BHSD[:, :, : state.filled]
        bias = self.relative.bias(causal_bias(places_BT, state.filled, x_BTD.dtype), query, places_BT)
        read = self.relative.read(places_BT, state.filled)
        return self.out(merge_heads(self.heads(query, keys, values, bias, read))), state
