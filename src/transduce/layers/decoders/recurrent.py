"""The recurrent decoder: cells, a wiring, an attention and a bridge."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from transduce.core import tree
from transduce.core.protocols import AnyWiring, Bridge, Cell, S
from transduce.core.types import Factory, Memory, MemoryWidths
from transduce.layers.modules.dropout import Dropout
from transduce.layers.modules.embedding import Readout, TokenEmbedding
from transduce.layers.modules.recurrent import Stack


class RecurrentDecoder(nn.Module):
    """A decoder of ``layers`` of recurrent cells. The ``bridge`` makes its first state from the memory's summary, and
    the ``wiring`` connects cells and attention. Features are [B, T, D], where D is the wiring's width.

    ``residual`` adds the input of each layer except the first to its output (Wu et al. 2016).
    """

    def __init__(
        self,
        target_vocabulary: int,
        memory: MemoryWidths,
        cell: Factory[Cell[S]],
        wiring: Factory[AnyWiring],
        bridge: Factory[Bridge],
        embedding_width: int = 256,
        width: int = 256,
        layers: int = 1,
        dropout: float = 0.1,
        residual: bool = False,
    ) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(target_vocabulary, embedding_width, scaled=False)
        self.dropout = Dropout(dropout)
        self.wiring = wiring(
            input_width=embedding_width,
            memory=memory,
            stack=partial(Stack, cell=cell, width=width, layers=layers, dropout=dropout, residual=residual),
            dropout=dropout,
        )
        self.width = self.wiring.width
        template = self.wiring.stack.start(1, self.embedding.weight)
        self.bridge = bridge(
            summary_widths=memory.summary, state_widths=tuple(leaf.shape[-1] for leaf in tree.leaves(template))
        )
        self.projection = Readout(self.width, target_vocabulary, dropout)

    def start(self, memory: Memory) -> object:
        states_BSD = memory.states.values
        empty = self.wiring.stack.start(states_BSD.shape[0], states_BSD)
        return self.wiring.start(memory, tree.fill(empty, self.bridge(tree.leaves(memory.summary))))

    def extend(self, tokens_BT: Tensor, state: object) -> tuple[Tensor, object]:
        features_BTW, state = self.wiring(self.dropout(self.embedding(tokens_BT)), state)
        return features_BTW, state

    def readout(self, output: Tensor, candidates: Tensor | None = None) -> Tensor:
        logits: Tensor = self.projection(output, candidates)
        return logits
