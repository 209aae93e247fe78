"""An embedding of the frames of a signal."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.types import Padded
from transduce.layers.modules.convolution import concatenate_neighbours
from transduce.layers.modules.linear import linear
from transduce.wings.signals.modules.grid import boxes, steps


class FrameEmbedding(nn.Module):
    """An embedding of recordings and other signals: maps each step, or ``stack`` concatenated neighbours, linearly to
    one vector, W x + b.

    S steps become ceil(S / stack) vectors (Sak et al. 2015, section 3, stack and skip 3 frames of speech). Before
    training, independent numbers of variance 1 give features of variance 1; ``scaled`` changes nothing. Raises
    UserError for a ``stack`` below 1.
    """

    def __init__(self, vocabulary: int, width: int, scaled: bool, stack: int = 1) -> None:
        super().__init__()
        if stack < 1:
            raise UserError(f"stack = {stack}: a vector is of at least one step")
        self.stack = stack
        # Not called ``weight``: that name means a table of tokens, which models may share.
        self.kernel = nn.Parameter(torch.randn(width, vocabulary * stack) * (vocabulary * stack) ** -0.5)
        self.bias = nn.Parameter(self.kernel.new_zeros(width))

    def embed(self, source: Padded) -> Padded:
        frames = concatenate_neighbours(Padded(steps(source).to(self.kernel.dtype), source.lengths), self.stack)
        return Padded(linear(frames.values, self.kernel, self.bias), frames.lengths)

    def boxes(self, source: Padded) -> Tensor:
        return boxes((1, self.stack), 1, source.lengths)
