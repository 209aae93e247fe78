"""Attention energies: how well a query fits a key, before the softmax, and the biases that mask them.

The attentions of Bahdanau, Luong and Vaswani differ only in their energy. Each maps queries [B, T, D] and keys [B, S,
K] to energies [B, T, S]. B rows, T queries, S keys, K features of a key.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.types import widened
from transduce.layers.modules.linear import Linear


class Dot(nn.Module):
    """The energy e_ts = q_t . m_s of query q_t and memory state m_s (Luong et al. 2015, eq. 8, "dot"). No parameters.

    Raises UserError unless queries and memory states have the same width.
    """

    def __init__(self, query_width: int, memory_width: int) -> None:
        super().__init__()
        if query_width != memory_width:
            raise UserError(
                f"energy 'dot' multiplies a query of {query_width} features with memory of {memory_width}: they must "
                "be equal; change a width, or take the energy 'general'"
            )
        self.key_width = memory_width

    def keys(self, memory_BSD: Tensor) -> Tensor:
        return memory_BSD

    def forward(self, query_BTD: Tensor, key_BSK: Tensor) -> Tensor:
        return torch.matmul(query_BTD, key_BSK.transpose(1, 2))


class General(nn.Module):
    """The energy e_ts = q_t . (W m_s) of query q_t and memory state m_s (Luong et al. 2015, eq. 8, "general",
    multiplicative).
    """

    def __init__(self, query_width: int, memory_width: int) -> None:
        super().__init__()
        self.key_width = query_width
        self.key = Linear(memory_width, query_width, bias=False)

    def keys(self, memory_BSD: Tensor) -> Tensor:
        keys: Tensor = self.key(memory_BSD)
        return keys

    def forward(self, query_BTD: Tensor, key_BSK: Tensor) -> Tensor:
        return torch.matmul(query_BTD, key_BSK.transpose(1, 2))


class Additive(nn.Module):
    """The energy e_ts = v . tanh(W q_t + U m_s + b) of query q_t and memory state m_s (Bahdanau et al. 2015, appendix
    A.1.2; Luong's "concat").

    ``width`` is the number of features of v, by default the query's width. ``keys`` returns U m + b.
    """

    def __init__(self, query_width: int, memory_width: int, width: int | None = None) -> None:
        super().__init__()
        width = width or query_width
        self.key_width = width
        self.query = Linear(query_width, width, bias=False)
        self.key = Linear(memory_width, width)
        self.score = nn.Parameter(torch.empty(width))
        nn.init.normal_(self.score, std=width**-0.5)

    def keys(self, memory_BSD: Tensor) -> Tensor:
        keys: Tensor = self.key(memory_BSD)
        return keys

    def forward(self, query_BTD: Tensor, key_BSK: Tensor) -> Tensor:
        hidden_BTSK = torch.tanh(self.query(query_BTD)[:, :, None] + key_BSK[:, None])
        return torch.matmul(hidden_BTSK, self.score)


class ScaledDot(nn.Module):
    """The energy e_ts = (W q_t) . (U m_s) / sqrt(width) of query q_t and memory state m_s, with one head (Vaswani et
    al. 2017, eq. 1 and its projections).

    ``width`` is the number of features of W q_t, by default the query's width.
    """

    def __init__(self, query_width: int, memory_width: int, width: int | None = None) -> None:
        super().__init__()
        width = width or query_width
        self.key_width = width
        self.query = Linear(query_width, width, bias=False)
        self.key = Linear(memory_width, width, bias=False)
        self.scale = width**-0.5

    def keys(self, memory_BSD: Tensor) -> Tensor:
        keys: Tensor = self.key(memory_BSD)
        return keys

    def forward(self, query_BTD: Tensor, key_BSK: Tensor) -> Tensor:
        return torch.matmul(self.query(query_BTD) * self.scale, key_BSK.transpose(1, 2))


def mask_bias(mask_BS: Tensor, dtype: torch.dtype) -> Tensor:
    """A bias [B, S] to add to energies before the softmax: 0 where ``mask_BS`` is True, minus infinity elsewhere.

    Its type is ``dtype``, but at least float32, so that the sums are float32 too: a softmax over bfloat16 takes the CPU
    eight times as long.
    """
    wide = widened(dtype)
    return torch.zeros(mask_BS.shape, dtype=wide, device=mask_BS.device).masked_fill_(~mask_BS, float("-inf"))


def causal_bias(places_BT: Tensor, positions: int, dtype: torch.dtype) -> Tensor:
    """A bias [B, 1, T, S] to add to energies: 0 where the key's place, 0 to S - 1, is at most the query's place in
    ``places_BT``; minus infinity elsewhere. S is ``positions``.
    """
    keys_S = torch.arange(positions, device=places_BT.device)
    return mask_bias(keys_S <= places_BT[:, :, None], dtype)[:, None]
