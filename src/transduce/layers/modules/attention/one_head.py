"""Attention to a memory with one head and any energy.

A source may have several hypotheses. They are then folded into the query axis, so that nothing of the memory is copied.
B sources, N rows (B times the hypotheses of a source), T queries of a row, Q queries of a source, S keys, K features of
a key, D features.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from transduce.core.protocols import Energy
from transduce.core.tree import Shared
from transduce.core.types import Factory, Memory
from transduce.layers.modules.attention.energies import mask_bias
from transduce.layers.modules.dropout import Dropout


@dataclass(frozen=True)
class AttentionKeys:
    """The keys [B, S, K] and values [B, S, D] of a source for attention, computed once, and the mask [B, S], True at
    real positions.

    The mask is kept instead of the bias made from it: ``tree.join`` pads with zeros, and a padded position must stay
    masked.
    """

    key_BSK: Tensor
    value_BSD: Tensor
    mask_BS: Tensor

    @staticmethod
    def of(memory: Memory, energy: Energy) -> AttentionKeys:
        return AttentionKeys(energy.keys(memory.states.values), memory.read_BSD, memory.states.mask)

    @property
    def bias_B1S(self) -> Tensor:
        return mask_bias(self.mask_BS, self.key_BSK.dtype)[:, None]

    def read(self, weights_BQS: Tensor) -> Tensor:
        """[B, Q, D]: for each query, the sum of the values times its weights."""
        return torch.matmul(weights_BQS.to(self.value_BSD.dtype), self.value_BSD)


class GlobalAttention(nn.Module):
    """Attention with one head: the mean of the memory's values, weighted by softmax(energy) (Bahdanau et al. 2015, eq.
    5-6).

    Returns contexts [N, T, memory_width] and weights [N, T, S]. In training, each weight is set to 0 with probability
    ``dropout`` when the values are averaged, and the others are scaled (``Dropout``). The returned weights are the
    weights before dropout. A forward hook on the submodule ``weights`` receives them as [B, Q, S]. The state is not
    changed.
    """

    def __init__(self, query_width: int, memory_width: int, energy: Factory[Energy], dropout: float = 0.0) -> None:
        super().__init__()
        self.width = memory_width
        self.energy = energy(query_width=query_width, memory_width=memory_width)
        self.weights = nn.Identity()
        self.dropout = Dropout(dropout)

    def start(self, memory: Memory) -> Shared[AttentionKeys]:
        return Shared(AttentionKeys.of(memory, self.energy))

    def forward(self, query_NTD: Tensor, state: Shared[AttentionKeys]) -> tuple[Tensor, Tensor, Shared[AttentionKeys]]:
        keys = state.value
        N, T, _ = query_NTD.shape
        B = keys.key_BSK.shape[0]
        query_BQD = query_NTD.reshape(B, N // B * T, -1)
        weights_BQS = self.weights(torch.softmax(self.energy(query_BQD, keys.key_BSK) + keys.bias_B1S, -1))
        return keys.read(self.dropout(weights_BQS)).view(N, T, -1), weights_BQS.view(N, T, -1), state
