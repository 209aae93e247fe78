"""An encoder that convolves a sentence into one vector."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.modules.convolution import convolve_each
from transduce.modules.dropout import Dropout
from transduce.modules.embedding import TokenEmbedding
from transduce.types import Memory, Padded


class SentenceConvolution(nn.Module):
    """The convolutional sentence model of Kalchbrenner and Blunsom 2013, section 3.1: kernels of growing width, each
    feature convolved by itself, shorten a sentence until one vector of it is left, which is the summary [B, width].

    x^{i+1}_s = tanh(sum_j k^i_j * x^i_{s+j}), a kernel of n making n - 1 positions fewer; ``kernels`` are used in
    order, the last again and again. A row shorter than the next kernel is filled up with zeros; one that has come
    down to one vector is finished, whatever its company. Made for the wirings "context", which hands the vector to
    each step of the decoder, and "plain", which starts from it. The states, for attention, are what is left after
    ``level`` kernels, the n-grams: with 0 the embeddings, one a token, as copying and pictures of attention need them.
    Raises ValueError for kernels that do not shorten a row.
    """

    def __init__(
        self,
        source_vocabulary: int,
        kernels: tuple[int, ...] = (2, 3, 4, 5),
        width: int = 256,
        level: int = 0,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        if not kernels or min(kernels) < 2:
            raise ValueError(f"kernels = {list(kernels)}: each must be at least 2, or a sentence gets no shorter")
        if not 0 <= level <= len(kernels):
            raise ValueError(f"level = {level}: states may be taken after 0 to {len(kernels)} kernels")
        self.width = width
        self.summary_widths = (width,)
        self.level = level
        self.embedding = TokenEmbedding(source_vocabulary, width, scaled=True)
        self.dropout = Dropout(dropout)
        self.kernels = nn.ParameterList(torch.randn(width, size) * size**-0.5 for size in kernels)

    def forward(self, source: Padded) -> Memory:
        level = Padded(self.dropout(self.embedding(source.values)), source.lengths)
        states, used = level, 0
        while used < self.level or level.values.shape[1] > 1:
            level = shorten(level, self.kernels[min(used, len(self.kernels) - 1)])
            used += 1
            states = level if used == self.level else states
        return Memory(states, (level.values[:, 0],), source)


def shorten(x: Padded, kernel_DK: Tensor) -> Padded:
    """Each row by K - 1 positions, to one at the least; rows of one position stay as they are."""
    missing = kernel_DK.shape[1] - x.values.shape[1]
    real_BSD = x.values.masked_fill(~x.mask[..., None], 0.0)
    shorter_BSD = torch.tanh(convolve_each(nn.functional.pad(real_BSD, (0, 0, 0, max(0, missing))), kernel_DK))
    finished_B11 = (x.lengths == 1)[:, None, None]
    values_BSD = torch.where(finished_B11, real_BSD[:, : shorter_BSD.shape[1]], shorter_BSD)
    return Padded(values_BSD, (x.lengths - kernel_DK.shape[1] + 1).clamp(min=1))
