"""An embedding that begins with the word vectors of a file."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.layers.modules.embedding import TokenEmbedding, lookup


class VectorEmbedding(TokenEmbedding):
    """Like "tokens", but when a training begins, tokens that the ``file`` of word vectors has get its vectors.

    The format is one that ``transduce vectors`` reads: word2vec text or binary, GloVe, or fastText. A relative path is
    relative to the current directory. The file is read once, when the training begins, and not when it is resumed or
    when the run is used. Its width must be that of the embedding. A token is looked for exactly, then in any case,
    without the mark of a space before it. A token that the file does not have gets a vector from its subwords if the
    file has them, and otherwise the random one of "tokens".

    The embedding of a token of the file is at first the file's vector, whether ``scaled`` or not. With ``frozen`` =
    True these embeddings stay so, and only the vectors of other tokens are trained.
    """

    def __init__(self, vocabulary: int, width: int, scaled: bool, file: str, frozen: bool = False) -> None:
        super().__init__(vocabulary, width, scaled)
        self.file = file
        self.fixed: nn.Parameter | None = None
        self.known: nn.Parameter | None = None  # [V, 1], 1 for a token whose vector is fixed
        if frozen:
            self.fixed = nn.Parameter(torch.zeros(vocabulary, width), requires_grad=False)
            self.known = nn.Parameter(torch.zeros(vocabulary, 1), requires_grad=False)

    @property
    def width(self) -> int:
        """The number of features of a vector."""
        return self.weight.shape[1]

    @torch.no_grad()
    def fill(self, ids_N: Tensor, vectors_ND: Tensor) -> int:
        """Gives N tokens their vectors, in place. Returns N."""
        if self.fixed is not None and self.known is not None:
            self.fixed[ids_N] = vectors_ND
            self.known[ids_N] = 1.0
        else:
            self.weight[ids_N] = vectors_ND / self.scale
        return len(ids_N)

    def forward(self, ids: Tensor) -> Tensor:
        embedded = super().forward(ids)
        if self.fixed is None or self.known is None:
            return embedded
        known = lookup(ids, self.known)
        return known * lookup(ids, self.fixed) + (1 - known) * embedded
