"""One dense layer over a whole source, with weights of its own for each position. B rows, S positions, E features."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.protocols import Embedding
from transduce.core.types import Factory, Memory, Padded
from transduce.layers.modules.dropout import Dropout
from transduce.layers.modules.embedding import TokenEmbedding
from transduce.layers.modules.linear import projection


class DenseEncoder(nn.Module):
    """An encoder of one dense layer: relu(W [e_1; ...; e_n] + b). It concatenates the vectors e of n = ``max_length``
    tokens, or steps of a series.

    Shorter sources are padded with zeros on the left, so that the last step always has the same weights. The summary is
    the layer's output [B, width]. The states are the vectors e [B, S, embedding_width] of the source alone. Dropout
    applies to both. Raises UserError if a source is longer than ``max_length``, or if this is less than 1.
    """

    def __init__(
        self,
        source_vocabulary: int,
        max_length: int,
        embedding_width: int = 16,
        width: int = 256,
        dropout: float = 0.1,
        embedding: Factory[Embedding] = TokenEmbedding,
    ) -> None:
        super().__init__()
        if max_length < 1:
            raise UserError(f"max_length = {max_length}: a source of at least one token was expected")
        self.max_length = max_length
        self.width = embedding_width
        self.summary_widths = (width,)
        self.embedding = embedding(vocabulary=source_vocabulary, width=embedding_width, scaled=False)
        self.linear = projection(max_length * embedding_width, width)
        self.dropout = Dropout(dropout)

    def forward(self, source: Padded) -> Memory:
        embedded = self.embedding.embed(source)
        hidden_BD = self.linear(self._ends_together(embedded).flatten(1)).relu()
        return Memory(Padded(self.dropout(embedded.values), embedded.lengths), (self.dropout(hidden_BD),), source)

    def _ends_together(self, x: Padded) -> Tensor:
        """[B, max_length, E]: the rows aligned to the right, with zeros before them."""
        longest = int(x.lengths.max())
        if longest > self.max_length:
            raise UserError(
                f"a source of {longest} tokens or steps: this encoder reads at most model.encoder.max_length = "
                f"{self.max_length}; give the last {self.max_length}, or train with more"
            )
        rows, _, width = x.values.shape
        moved = x.values.new_zeros(rows, self.max_length, width)
        places_BS = torch.arange(x.values.shape[1], device=x.lengths.device) + (self.max_length - x.lengths)[:, None]
        mask_BS = x.mask
        row_BS = torch.arange(rows, device=x.lengths.device)[:, None].expand_as(mask_BS)
        return moved.index_put((row_BS[mask_BS], places_BS[mask_BS]), x.values[mask_BS])
