"""Attention that remembers its own weights: of the previous step (location), or of all steps (coverage).

Each hypothesis has its own weights, while keys belong to the source. B sources, N rows (B times the hypotheses of a
source), T queries, S source positions, K features of a key, F filters, M features of a context.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.protocols import Energy
from transduce.core.tree import Shared
from transduce.core.types import Factory, Memory
from transduce.layers.modules.attention.one_head import AttentionKeys


@dataclass(frozen=True)
class Remembered:
    """The state of ``RememberingAttention`` between two queries: the keys and values of each source, and for each row
    the remembered weights [N, S].
    """

    keys: Shared[AttentionKeys]
    weights_NS: Tensor


class RememberingAttention(nn.Module, ABC):
    """Base class of attentions whose energies also depend on their own earlier weights.

    Before each query, features of the remembered weights are added to the keys. So queries are processed one after the
    other. A subclass defines the memory of past weights (``remember``) and its features (``features``). The returned
    context [N, T, width] is the mean of the memory's values under the weights [N, T, S]. Padding always has weight 0,
    so a convolution sees it as zero padding at the end of a row.
    """

    def __init__(self, query_width: int, memory_width: int, energy: Factory[Energy]) -> None:
        super().__init__()
        self.width = memory_width
        self.energy = energy(query_width=query_width, memory_width=memory_width)
        self.weights = nn.Identity()

    @abstractmethod
    def features(self, remembered_NS: Tensor) -> Tensor:
        """Maps the remembered weights [N, S] to features [N, S, K], which are added to the keys of each row."""

    @abstractmethod
    def remember(self, remembered_NS: Tensor, weights_NS: Tensor) -> Tensor:
        """Returns the memory after a step, [N, S], from the memory before the step and from the step's weights."""

    def start(self, memory: Memory) -> Remembered:
        keys = AttentionKeys.of(memory, self.energy)
        return Remembered(Shared(keys), torch.zeros_like(keys.bias_B1S[:, 0]))

    def forward(self, query_NTD: Tensor, state: Remembered) -> tuple[Tensor, Tensor, Remembered]:
        keys, remembered_NS, steps = state.keys.value, state.weights_NS, []
        bias_B1S = keys.bias_B1S
        (B, S, K), (N, T, _) = keys.key_BSK.shape, query_NTD.shape
        for query_ND in query_NTD.unbind(1):
            features_NSK = self.features(remembered_NS)
            key_NSK = (keys.key_BSK[:, None] + features_NSK.view(B, N // B, S, K)).view(N, S, K)
            energy_BQS = self.energy(query_ND[:, None], key_NSK).view(B, N // B, S)
            weights_N1S = self.weights(torch.softmax(energy_BQS + bias_B1S, -1).view(N, 1, S))
            remembered_NS = self.remember(remembered_NS, weights_N1S[:, 0])
            steps.append(weights_N1S)
        weights_NTS = torch.cat(steps, 1)
        context_NTM = keys.read(weights_NTS.view(B, N // B * T, S)).view(N, T, -1)
        return context_NTM, weights_NTS, Remembered(state.keys, remembered_NS)


class LocationAttention(RememberingAttention):
    """Attention that also reads its weights of the previous step: Chorowski et al. 2015, eq. 8-9.

    f = F * a is a convolution of these weights a (0 before the first step), with ``filters`` outputs and ``kernel``
    positions wide. U f is added to the key of each position. If ``energy`` is "additive", the energy of query s and
    memory state h then is v . tanh(W s + V h + U f + b). Raises UserError if ``kernel`` is even.
    """

    def __init__(
        self, query_width: int, memory_width: int, energy: Factory[Energy], filters: int = 10, kernel: int = 31
    ) -> None:
        super().__init__(query_width, memory_width, energy)
        if kernel % 2 == 0:
            raise UserError(f"kernel = {kernel}: a window with a middle has an odd width; take {kernel + 1}")
        self.filter = nn.Conv1d(1, filters, kernel, padding=kernel // 2, bias=False)
        self.feature = nn.Linear(filters, self.energy.key_width, bias=False)
        nn.init.xavier_uniform_(self.filter.weight)
        nn.init.xavier_uniform_(self.feature.weight)

    def features(self, remembered_NS: Tensor) -> Tensor:
        filtered_NFS = self.filter(remembered_NS[:, None].to(self.filter.weight.dtype))
        features_NSK: Tensor = self.feature(filtered_NFS.transpose(1, 2))
        return features_NSK

    def remember(self, remembered_NS: Tensor, weights_NS: Tensor) -> Tensor:
        return weights_NS


class CoverageAttention(RememberingAttention):
    """Attention that also reads the sum of its weights so far: See et al. 2017, eq. 10-11 (after Tu et al. 2016).

    The coverage c of a position is the sum of its weights in all earlier steps. w c is added to the key of the
    position, where w is a learned vector. If ``energy`` is "additive", the energy of query s and memory state h then is
    v . tanh(W s + V h + w c + b).
    """

    def __init__(self, query_width: int, memory_width: int, energy: Factory[Energy]) -> None:
        super().__init__(query_width, memory_width, energy)
        self.feature = nn.Linear(1, self.energy.key_width, bias=False)
        nn.init.xavier_uniform_(self.feature.weight)

    def features(self, remembered_NS: Tensor) -> Tensor:
        features_NSK: Tensor = self.feature(remembered_NS[..., None].to(self.feature.weight.dtype))
        return features_NSK

    def remember(self, remembered_NS: Tensor, weights_NS: Tensor) -> Tensor:
        return remembered_NS + weights_NS
