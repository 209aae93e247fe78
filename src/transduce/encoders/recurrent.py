"""Recurrent encoders, stacked, in one direction or both."""

from __future__ import annotations

from typing import Any

from torch import nn

from transduce import tree
from transduce.modules.dropout import Dropout
from transduce.modules.embedding import TokenEmbedding
from transduce.modules.module_list import module_list
from transduce.modules.recurrent import Bidirectional, Unidirectional
from transduce.types import Cell, Factory, Memory, Padded


class RecurrentEncoder(nn.Module):
    """Tokens through ``layers`` of a cell.

    ``width`` is each direction's, so the memory's states have 2 * width features when ``bidirectional``. The summary
    holds every layer's and direction's last state, in order (for an LSTM h, then c), each at its row's last token.
    """

    def __init__(
        self,
        source_vocabulary: int,
        cell: Factory[Cell[Any]],
        embedding_width: int = 256,
        width: int = 256,
        layers: int = 1,
        bidirectional: bool = True,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        direction = Bidirectional if bidirectional else Unidirectional
        self.width = 2 * width if bidirectional else width
        self.embedding = TokenEmbedding(source_vocabulary, embedding_width)
        inputs = [embedding_width] + [self.width] * (layers - 1)
        self.layers = module_list(direction(cell, below, width) for below in inputs)
        self.dropout = Dropout(dropout)
        one_cell = cell(input_width=1, width=width)
        leaves = tree.leaves(one_cell.start(1, self.embedding.weight))
        self.summary_widths = tuple(leaf.shape[-1] for leaf in leaves) * layers * (2 if bidirectional else 1)

    def forward(self, source: Padded) -> Memory:
        x_BSD = self.embedding(source.values)
        summary = []
        for layer in self.layers:
            x_BSD, state = layer.unroll(self.dropout(x_BSD), source.lengths)
            summary.append(state)
        return Memory(Padded(self.dropout(x_BSD), source.lengths), tuple(summary), source)
