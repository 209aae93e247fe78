"""A bag of words: an encoder that ignores the order of the tokens."""

from __future__ import annotations

from torch import nn

from transduce.core.protocols import Embedding
from transduce.core.types import Factory, Memory, Padded
from transduce.layers.modules.dropout import Dropout
from transduce.layers.modules.embedding import TokenEmbedding
from transduce.layers.modules.pooling import Pooling, pool


class BagEncoder(nn.Module):
    """A bag of words. The states [B, S, width] are the embeddings of the tokens, after dropout. The summary [B, width]
    is the mean, the sum or the maximum of a row's real states, as ``pooling`` says.

    The mean is the continuous bag of words of Mikolov et al. 2013. Each source ends with EOS, whose state is pooled
    too, so no bag is empty.
    """

    def __init__(
        self,
        source_vocabulary: int,
        width: int = 256,
        pooling: Pooling = "mean",
        dropout: float = 0.1,
        embedding: Factory[Embedding] = TokenEmbedding,
    ) -> None:
        super().__init__()
        self.width = width
        self.summary_widths = (width,)
        self.embedding = embedding(vocabulary=source_vocabulary, width=width, scaled=False)
        self.dropout = Dropout(dropout)
        self.pooling = pooling

    def forward(self, source: Padded) -> Memory:
        embedded = self.embedding.embed(source)
        states = Padded(self.dropout(embedded.values), embedded.lengths)
        return Memory(states, (pool(states, self.pooling),), source)
