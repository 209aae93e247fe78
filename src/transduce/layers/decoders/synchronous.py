"""A decoder that reads the source at the pace of its output: deterministic attention.

B sources, K hypotheses of each, N = B * K rows; S source positions, T target positions, D features of a memory state,
W the cells' width, V target vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import Bridge, Cell, S
from transduce.core.tree import Shared
from transduce.core.types import Factory, Memory, MemoryWidths
from transduce.layers.modules.dropout import Dropout
from transduce.layers.modules.embedding import Readout, TokenEmbedding
from transduce.layers.modules.linear import projection
from transduce.layers.modules.recurrent import Stack, State


@dataclass(frozen=True)
class SynchronousState:
    """The state of ``SynchronousDecoder``: the state of the cells, the number of source words that the output has so
    far, [N], and the memory's values [B, S, D] with their lengths [B].
    """

    cells: State
    written_N: Tensor
    memory: Shared[tuple[Tensor, Tensor]]


class SynchronousDecoder(nn.Module):
    """A recurrent decoder that reads one memory state in each step: the state of the source word that the output writes
    next. This is deterministic attention (Ma et al. 2017, "Deterministic attention for sequence-to-sequence constituent
    parsing").

    ``placeholders`` are the target ids that stand for the next source word; the data give them (the unit
    "tree-brackets" has one). After n of them the decoder reads m, the n-th memory state, counted from 0. After the last
    one it stays at the last state, which belongs to EOS. The input of the cells is [y_{t-1}; m], where y_{t-1} is the
    embedding of the previous token. The features are f_t = tanh(W [s_t; m] + b), where s_t is the cells' output. The
    alignment is known, so all target positions are computed in one pass.

    ``cell``, ``bridge``, ``layers`` and the widths are as in the decoder ``recurrent``. Raises UserError without a
    source, and without placeholders.
    """

    reads_V: Tensor

    def __init__(
        self,
        target_vocabulary: int,
        memory: MemoryWidths,
        cell: Factory[Cell[S]],
        bridge: Factory[Bridge],
        placeholders: Sequence[int],
        embedding_width: int = 64,
        width: int = 256,
        layers: int = 1,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        if not memory.states or not placeholders:
            raise UserError(
                'the decoder "synchronous" writes each word of a source as a placeholder, and this target has none: '
                'set data.units.target to "tree-brackets", or choose another decoder'
            )
        self.embedding = TokenEmbedding(target_vocabulary, embedding_width, scaled=False)
        self.dropout = Dropout(dropout)
        self.stack = Stack(cell, embedding_width + memory.states, width, layers, dropout)
        template = self.stack.start(1, self.embedding.weight)
        self.bridge = bridge(
            summary_widths=memory.summary, state_widths=tuple(leaf.shape[-1] for leaf in tree.leaves(template))
        )
        self.width = width
        self.mix = projection(width + memory.states, width)
        self.projection = Readout(width, target_vocabulary, dropout)
        self.weights = nn.Identity()
        reads_V = torch.zeros(target_vocabulary, dtype=torch.long)
        reads_V[list(placeholders)] = 1
        self.register_buffer("reads_V", reads_V, False)

    def start(self, memory: Memory) -> SynchronousState:
        value_BSD, length_B = memory.read_BSD, memory.states.lengths
        empty = self.stack.start(len(value_BSD), value_BSD)
        cells = tree.fill(empty, self.bridge(tree.leaves(memory.summary)))
        return SynchronousState(cells, torch.zeros_like(length_B), Shared((value_BSD, length_B)))

    def extend(self, tokens_NT: Tensor, state: SynchronousState) -> tuple[Tensor, SynchronousState]:
        value_BSD, length_B = state.memory.value
        (N, T), (B, S, D) = tokens_NT.shape, value_BSD.shape
        written_NT = state.written_N[:, None] + self.reads_V[tokens_NT].cumsum(1)
        place_BQ = torch.minimum(written_NT.view(B, N // B * T), length_B[:, None] - 1)
        weights_BQS = self.weights((torch.arange(S, device=place_BQ.device) == place_BQ[..., None]).to(value_BSD.dtype))
        read_NTD = (weights_BQS @ value_BSD).view(N, T, D)
        s_NTW, cells = self.stack.unroll(
            torch.cat([self.dropout(self.embedding(tokens_NT)), read_NTD], -1), state.cells
        )
        features_NTW = torch.tanh(self.mix(torch.cat([self.dropout(s_NTW), read_NTD], -1)))
        return features_NTW, SynchronousState(cells, written_NT[:, -1], state.memory)

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        logits: Tensor = self.projection(output, candidates)
        return logits
