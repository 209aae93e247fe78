"""A recurrent encoder with fewer positions in each layer. B rows, S positions, D features."""

from __future__ import annotations

import torch
from torch import nn

from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import Cell, Embedding, S
from transduce.core.types import Factory, Memory, Padded
from transduce.layers.modules import module_list
from transduce.layers.modules.convolution import concatenate_neighbours
from transduce.layers.modules.dropout import Dropout
from transduce.layers.modules.embedding import TokenEmbedding
from transduce.layers.modules.recurrent import RecurrentLayer, State


class PyramidalEncoder(nn.Module):
    """The listener of Listen, Attend and Spell (Chan et al. 2016, section 3.1, eq. 5).

    It has ``layers`` bidirectional layers of a cell. Each layer but the first reads ``joined`` neighbouring outputs of
    the layer below, concatenated, as one input: h^j_i = cells([h^{j-1}_{2i}; h^{j-1}_{2i+1}], ...) for ``joined`` = 2.
    So S positions become ceil(S / joined^(layers - 1)) states of 2 * width features. Zeros fill the last group of a
    row. The summary holds the last state of each layer and direction: the lowest layer first, and in a layer forward,
    then backward. Raises UserError unless ``layers`` and ``joined`` are at least 1.
    """

    def __init__(
        self,
        source_vocabulary: int,
        cell: Factory[Cell[S]],
        embedding_width: int = 256,
        width: int = 256,
        layers: int = 3,
        joined: int = 2,
        dropout: float = 0.1,
        embedding: Factory[Embedding] = TokenEmbedding,
    ) -> None:
        super().__init__()
        if layers < 1 or joined < 1:
            raise UserError(f"layers = {layers}, joined = {joined}: at least one of each was expected")
        self.width = 2 * width
        self.joined = joined
        self.reach = joined ** (layers - 1)  # source positions per state; inspection reads it
        self.embedding = embedding(vocabulary=source_vocabulary, width=embedding_width, scaled=False)
        inputs = [embedding_width] + [joined * self.width] * (layers - 1)
        self.layers = module_list(
            RecurrentLayer(cell(input_width=below, width=width), cell(input_width=below, width=width))
            for below in inputs
        )
        self.dropout = Dropout(dropout)
        starts = [layer.start(1, torch.empty(0)) for layer in self.layers]
        self.summary_widths = tuple(leaf.shape[-1] for leaf in tree.leaves(tuple(starts)))

    def forward(self, source: Padded) -> Memory:
        x = self.embedding.embed(source)
        summary: list[State] = []
        for layer in self.layers:
            x = concatenate_neighbours(x, self.joined) if summary else x
            y_BSD, state = layer.unroll(self.dropout(x.values), x.lengths)
            x = Padded(y_BSD, x.lengths)
            summary.append(state)
        return Memory(Padded(self.dropout(x.values), x.lengths), tuple(summary), source)
