"""A decoder that reads the observed words of its output. N rows, T positions, D features."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from transduce.core.tree import Shared
from transduce.core.types import BOS, Memory
from transduce.layers.decoders.instant import InstantTransformer, StackedKeys
from transduce.layers.modules.embedding import lookup


@dataclass(frozen=True)
class Observed:
    """The projected memory, and the observed words [N, T], with BOS in place of the others. ``tokens_NT`` None means
    that no word is observed.
    """

    keys: Shared[StackedKeys]
    tokens_NT: Tensor | None = None


class MaskedTransformer(InstantTransformer):
    """The decoder of a conditional masked language model (Ghazvininejad et al. 2019): ``InstantTransformer``, whose
    input at each position also has the vector of the observed word, or of BOS in place of a word that it must predict.

    The vectors are the rows of the readout times sqrt(``width``), so the two tables are always tied.
    """

    def start(self, memory: Memory) -> Observed:  # type: ignore[override]
        return Observed(super().start(memory))

    def observe(self, state: Observed, tokens_NT: Tensor) -> Observed:
        return replace(state, tokens_NT=tokens_NT)

    def forward(self, state: Observed, lengths_N: Tensor, positions: int) -> Tensor:  # type: ignore[override]
        tokens_NT = state.tokens_NT
        if tokens_NT is None:
            tokens_NT = torch.full((1, 1), BOS, device=lengths_N.device)
        weight_VD = self.projection.weight
        words_NTD = lookup(tokens_NT[:, :positions], weight_VD) * weight_VD.shape[1] ** 0.5
        return self.stack(self.places(lengths_N, positions) + words_NTD, state.keys, lengths_N)
