"""Attention over a memory: one head with any energy, and the many heads of the Transformer.

Queries may have K times the rows of the memory (K hypotheses of each source): K is folded into the query axis, so
that nothing of the memory is copied per hypothesis. B sources, N = B * K rows, H heads, T queries, S keys, D features.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from transduce.modules.dropout import Dropout
from transduce.tree import Shared
from transduce.types import Energy, Factory, Memory


def mask_bias(mask_BS: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where the mask is True, minus infinity elsewhere: to be added to energies.

    Never narrower than float32, and so are the sums: a softmax over bfloat16 takes the CPU eight times as long.
    """
    wide = torch.promote_types(dtype, torch.float32)
    return torch.zeros(mask_BS.shape, dtype=wide, device=mask_BS.device).masked_fill_(~mask_BS, float("-inf"))


# ------------------------------------------------------- one head, any energy


@dataclass(frozen=True)
class AttentionKeys:
    """A source as attention reads it: energies' keys [B, S, K], values [B, S, D], bias [B, 1, S]."""

    key_BSK: Tensor
    value_BSD: Tensor
    bias_B1S: Tensor

    @staticmethod
    def of(memory: Memory, energy: Energy) -> AttentionKeys:
        states_BSD = memory.states.values
        bias_B1S = mask_bias(memory.states.mask, states_BSD.dtype)[:, None]
        return AttentionKeys(energy.keys(states_BSD), memory.read_BSD, bias_B1S)

    def read(self, weights_BQS: Tensor) -> Tensor:
        """The values' expectations [B, Q, D]."""
        return torch.matmul(weights_BQS.to(self.value_BSD.dtype), self.value_BSD)


class GlobalAttention(nn.Module):
    """The expectation of what the memory gives to read, under softmax(energy): Bahdanau et al. 2015, eq. 5-6.

    The weights pass through ``weights``, an identity: hook it to look at them.
    """

    def __init__(self, query_width: int, memory_width: int, energy: Factory[Energy]) -> None:
        super().__init__()
        self.width = memory_width
        self.energy = energy(query_width=query_width, memory_width=memory_width)
        self.weights = nn.Identity()

    def start(self, memory: Memory) -> Shared[AttentionKeys]:
        return Shared(AttentionKeys.of(memory, self.energy))

    def forward(self, query_NTD: Tensor, state: Shared[AttentionKeys]) -> tuple[Tensor, Tensor, Shared[AttentionKeys]]:
        keys = state.value
        N, T, _ = query_NTD.shape
        B = keys.key_BSK.shape[0]
        query_BQD = query_NTD.reshape(B, N // B * T, -1)
        weights_BQS = self.weights(torch.softmax(self.energy(query_BQD, keys.key_BSK) + keys.bias_B1S, -1))
        return keys.read(weights_BQS).view(N, T, -1), weights_BQS.view(N, T, -1), state


# ----------------------------------------------------------------- many heads


class Heads(nn.Module):
    """softmax(q k' / sqrt(D) + bias) v for every head: Vaswani et al. 2017, eq. 1.

    On the CPU written as two products and a softmax: at the lengths of sentences faster, forward and backward, than
    the fused kernel, which is used elsewhere while nobody looks at the weights.
    """

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.weights = nn.Identity()

    def forward(self, query_BHTD: Tensor, key_BHSD: Tensor, value_BHSD: Tensor, bias: Tensor) -> Tensor:
        if query_BHTD.device.type != "cpu" and not self.weights._forward_hooks:
            p = self.dropout.p if self.training else 0.0
            return nn.functional.scaled_dot_product_attention(
                query_BHTD, key_BHSD, value_BHSD, bias.to(query_BHTD.dtype), dropout_p=p
            )
        energy_BHTS = torch.matmul(query_BHTD * query_BHTD.shape[-1] ** -0.5, key_BHSD.transpose(-1, -2))
        weights_BHTS = self.weights(torch.softmax(energy_BHTS + bias, -1)).to(value_BHSD.dtype)
        return torch.matmul(self.dropout(weights_BHTS), value_BHSD)


def split_heads(x_BTE: Tensor, parts: int, heads: int) -> tuple[Tensor, ...]:
    """[B, T, parts * heads * D] as ``parts`` tensors [B, heads, T, D]."""
    B, T, E = x_BTE.shape
    return x_BTE.view(B, T, parts, heads, E // parts // heads).permute(2, 0, 3, 1, 4).unbind(0)


def merge_heads(x_BHTD: Tensor) -> Tensor:
    return x_BHTD.transpose(1, 2).flatten(2)


def check_heads(width: int, heads: int) -> None:
    if width % heads:
        raise ValueError(f"width = {width} does not divide into heads = {heads}: choose a multiple")


class SelfAttention(nn.Module):
    """Every position reads every real position of its own row, as an encoder may."""

    def __init__(self, width: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        check_heads(width, heads)
        self.count = heads
        self.project = projection(width, width, 3)
        self.heads = Heads(dropout)
        self.out = projection(width, width)

    def forward(self, x_BSD: Tensor, bias_B11S: Tensor) -> Tensor:
        query, key, value = split_heads(self.project(x_BSD), 3, self.count)
        y: Tensor = self.out(merge_heads(self.heads(query, key, value, bias_B11S)))
        return y


@dataclass(frozen=True)
class Past:
    """Keys and values of the positions so far, at their own places on axis S; at most ``filled`` are in use."""

    key_BHSD: Tensor
    value_BHSD: Tensor
    filled: int

    def extend(self, key_BHTD: Tensor, value_BHTD: Tensor, places_BT: Tensor) -> Past:
        """New positions written at ``places_BT``. Without gradients in place, into a buffer that grows by doubling."""
        if not self.filled:
            return Past(key_BHTD, value_BHTD, key_BHTD.shape[2])
        filled = self.filled + key_BHTD.shape[2]
        index = places_BT[:, None, :, None].expand_as(key_BHTD)
        if torch.is_grad_enabled():
            key, value = (_room(old, filled) for old in (self.key_BHSD, self.value_BHSD))
            return Past(key.scatter(2, index, key_BHTD), value.scatter(2, index, value_BHTD), filled)
        key, value = self.key_BHSD, self.value_BHSD
        if key.shape[2] < filled:
            key, value = (_room(old, max(filled, 2 * key.shape[2])) for old in (key, value))
        return replace(self, key_BHSD=key.scatter_(2, index, key_BHTD), value_BHSD=value.scatter_(2, index, value_BHTD),
                       filled=filled)  # fmt: skip


def _room(old_BHSD: Tensor, positions: int) -> Tensor:
    return nn.functional.pad(old_BHSD, (0, 0, 0, max(0, positions - old_BHSD.shape[2])))


class CausalSelfAttention(nn.Module):
    """Every position reads itself and those before it, which it keeps: ``Past`` is the state."""

    def __init__(self, width: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        check_heads(width, heads)
        self.count = heads
        self.project = projection(width, width, 3)
        self.heads = Heads(dropout)
        self.out = projection(width, width)

    def start(self, rows: int, like: Tensor) -> Past:
        D = self.out.weight.shape[0] // self.count
        nothing_BHSD = like.new_zeros(rows, self.count, 0, D)
        return Past(nothing_BHSD, nothing_BHSD, 0)

    def forward(self, x_BTD: Tensor, state: Past, places_BT: Tensor, bias_B1TS: Tensor) -> tuple[Tensor, Past]:
        query, key, value = split_heads(self.project(x_BTD), 3, self.count)
        state = state.extend(key, value, places_BT)
        keys, values = state.key_BHSD[:, :, : state.filled], state.value_BHSD[:, :, : state.filled]
        return self.out(merge_heads(self.heads(query, keys, values, bias_B1TS))), state


def causal_bias(places_BT: Tensor, positions: int, dtype: torch.dtype) -> Tensor:
    """[B, 1, T, S]: a query at place p reads keys at places 0 to p."""
    keys_S = torch.arange(positions, device=places_BT.device)
    return mask_bias(keys_S <= places_BT[:, :, None], dtype)[:, None]


@dataclass(frozen=True)
class CrossKeys:
    """A memory's keys and values [B, H, S, D], projected once a sentence."""

    key_BHSD: Tensor
    value_BHSD: Tensor


class CrossAttention(nn.Module):
    """Every position reads the memory."""

    def __init__(self, width: int, memory_width: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        check_heads(width, heads)
        self.count = heads
        self.query = projection(width, width)
        self.project = projection(memory_width, width, 2)
        self.heads = Heads(dropout)
        self.out = projection(width, width)

    def start(self, memory: Memory) -> CrossKeys:
        if memory.values is None:  # keys and values in one product
            return CrossKeys(*split_heads(self.project(memory.states.values), 2, self.count))
        parts = zip(self.project.weight.chunk(2), self.project.bias.chunk(2), strict=True)
        inputs = (memory.states.values, memory.values)
        key_BSE, value_BSE = (nn.functional.linear(x, *part) for x, part in zip(inputs, parts, strict=True))
        return CrossKeys(*split_heads(torch.cat([key_BSE, value_BSE], -1), 2, self.count))

    def forward(self, x_NTD: Tensor, keys: CrossKeys, bias_B11S: Tensor) -> Tensor:
        N, T, D = x_NTD.shape
        B = keys.key_BHSD.shape[0]
        (query_BHQD,) = split_heads(self.query(x_NTD).reshape(B, N // B * T, D), 1, self.count)
        read_BHQD = self.heads(query_BHQD, keys.key_BHSD, keys.value_BHSD, bias_B11S)
        y: Tensor = self.out(merge_heads(read_BHQD).view(N, T, D))
        return y


def projection(inputs: int, outputs: int, parts: int = 1) -> nn.Linear:
    """A linear layer of ``parts`` stacked matrices, each with Glorot's uniform initialisation, biases 0."""
    linear = nn.Linear(inputs, parts * outputs)
    for part in linear.weight.data.chunk(parts):
        nn.init.xavier_uniform_(part)
    nn.init.zeros_(linear.bias)
    return linear
