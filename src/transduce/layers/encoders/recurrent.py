"""Recurrent encoders: stacked layers, in one direction or both."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import Cell, Embedding, S
from transduce.core.types import Factory, Memory, Padded
from transduce.layers.modules import module_list
from transduce.layers.modules.dropout import Dropout
from transduce.layers.modules.embedding import TokenEmbedding
from transduce.layers.modules.recurrent import RecurrentLayer, State


class RecurrentEncoder(nn.Module):
    """Runs ``layers`` of a recurrent cell over the embedded tokens.

    ``direction`` is the reading direction of all layers: ``forward``, ``backward`` or ``both`` (Schuster and Paliwal
    1997). The last state of a ``backward`` cell has just read the first token (Sutskever et al. 2014). ``width`` is the
    width of one cell, so the states have 2 * width features if ``direction`` is ``both``. The summary holds the last
    state of each layer and direction: the lowest layer first, and in a layer forward, then backward (for an LSTM h,
    then c). ``residual`` adds the input of each layer but the first, before dropout, to its output (Wu et al. 2016).
    ``embedding`` makes the vectors that the first layer reads; the default looks up one for each token id. Raises
    UserError for less than one layer or an unknown direction.
    """

    def __init__(
        self,
        source_vocabulary: int,
        cell: Factory[Cell[S]],
        embedding_width: int = 256,
        width: int = 256,
        layers: int = 1,
        direction: Literal["both", "forward", "backward"] = "both",
        dropout: float = 0.1,
        residual: bool = False,
        embedding: Factory[Embedding] = TokenEmbedding,
    ) -> None:
        super().__init__()
        if layers < 1:
            raise UserError(f"layers = {layers}: a recurrent network has at least one")
        if direction not in ("both", "forward", "backward"):
            raise UserError(
                f'direction = "{direction}": a source is read "forward", "backward" or in "both" directions'
            )

        def reader(way: str, below: int) -> Cell[S] | None:
            return cell(input_width=below, width=width) if direction in (way, "both") else None

        self.width = 2 * width if direction == "both" else width
        self.embedding = embedding(vocabulary=source_vocabulary, width=embedding_width, scaled=False)
        inputs = [embedding_width] + [self.width] * (layers - 1)
        self.layers = module_list(
            RecurrentLayer(reader("forward", below), reader("backward", below)) for below in inputs
        )
        self.dropout = Dropout(dropout)
        self.residual = residual
        starts = [layer.start(1, torch.empty(0)) for layer in self.layers]
        self.summary_widths = tuple(leaf.shape[-1] for leaf in tree.leaves(tuple(starts)))

    def forward(self, source: Padded) -> Memory:
        embedded = self.embedding.embed(source)
        x_BSD = embedded.values
        summary: list[State] = []
        for layer in self.layers:
            y_BSD, state = layer.unroll(self.dropout(x_BSD), embedded.lengths)
            x_BSD = x_BSD + y_BSD if self.residual and summary else y_BSD
            summary.append(state)
        return Memory(Padded(self.dropout(x_BSD), embedded.lengths), tuple(summary), source)
