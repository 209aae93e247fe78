"""An encoder that reduces a sentence to one vector by convolutions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.types import Memory, Padded
from transduce.layers.modules.convolution import convolve_each
from transduce.layers.modules.dropout import Dropout
from transduce.layers.modules.embedding import TokenEmbedding


class SentenceConvolution(nn.Module):
    """The convolutional sentence model of Kalchbrenner and Blunsom 2013, section 3.1.

    Kernels of growing width shorten a sentence until one vector is left, the summary [B, width]. Each feature is
    convolved separately: x^{i+1}_s = tanh(sum_j k^i_j * x^i_{s+j}). A kernel of width n removes n - 1 positions.
    ``kernels`` are used in order, the last one repeatedly. A row that is shorter than the next kernel is padded with
    zeros. A row with one vector left is finished, even if other rows of the batch need more layers.

    Use it with the wiring "context", which gives the vector to each decoder step, or "plain", which starts from it. The
    states for attention are the vectors after ``level`` kernels. Level 0 gives one embedding per token, which copying
    and pictures of attention need. Raises UserError if there are no kernels, for a kernel narrower than 2, or unless
    ``level`` is from 0 to the number of kernels.
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
            raise UserError(f"kernels = {list(kernels)}: each must be at least 2, or a sentence gets no shorter")
        if not 0 <= level <= len(kernels):
            raise UserError(f"level = {level}: states may be taken after 0 to {len(kernels)} kernels")
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
    """Convolves x [B, S, D] with one kernel [D, K] for each feature, and takes tanh. Each row loses K - 1 positions,
    but keeps at least one. Rows of one position do not change.
    """
    missing = kernel_DK.shape[1] - x.values.shape[1]
    real_BSD = x.values.masked_fill(~x.mask[..., None], 0.0)
    shorter_BSD = torch.tanh(convolve_each(nn.functional.pad(real_BSD, (0, 0, 0, max(0, missing))), kernel_DK))
    finished_B11 = (x.lengths == 1)[:, None, None]
    values_BSD = torch.where(finished_B11, real_BSD[:, : shorter_BSD.shape[1]], shorter_BSD)
    return Padded(values_BSD, (x.lengths - kernel_DK.shape[1] + 1).clamp(min=1))
