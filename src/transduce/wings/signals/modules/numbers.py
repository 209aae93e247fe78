"""Embeddings of numbers: the steps of a series as vectors. B rows, S steps, C channels, D features."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.types import Padded


class NumberEmbedding(nn.Module):
    """Maps the C numbers of a step [..., C] linearly to one vector [..., width]: W x + b.

    ``vocabulary`` is the number of channels C. ``weight`` [C, width] has one vector per channel. Before training,
    independent numbers of variance 1 give features of variance 1. ``scaled`` changes nothing: numbers have a scale of
    their own. The constructor raises UserError for a source of tokens. ``embed`` raises it for a signal, and for a
    missing number (NaN) in a real step.
    """

    def __init__(self, vocabulary: int, width: int, scaled: bool, source_factors: int) -> None:
        super().__init__()
        if vocabulary != source_factors:
            raise UserError(
                f"an embedding of numbers, and the source has tokens, {vocabulary} in its vocabulary: set "
                'data.units.source = "numbers", or leave model.encoder.embedding out'
            )
        self.weight = nn.Parameter(torch.empty(vocabulary, width))
        self.bias = nn.Parameter(torch.zeros(width))
        nn.init.normal_(self.weight, std=vocabulary**-0.5)

    def embed(self, source: Padded) -> Padded:
        if source.values.ndim != 2:
            raise UserError(
                'the embedding "numbers" reads a series, and the source is a signal, steps of '
                f'{source.values.shape[-1]} numbers: set model.encoder.embedding = "features", or another of '
                "docs/fronts.md"
            )
        steps_BSC = grouped(source, len(self.weight))
        if bool((steps_BSC.values.isnan() & steps_BSC.mask[..., None]).any()):
            raise UserError(
                "the source has missing numbers, and a network reads none: fill them in, or train a model that reads "
                'gaps (model.type = "kalman")'
            )
        return Padded(self(steps_BSC.values), steps_BSC.lengths)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x.to(self.weight.dtype), self.weight.T, self.bias)


def grouped(source: Padded, channels: int) -> Padded:
    """Turns rows of numbers [B, S * C + 1], which end with EOS, into steps [B, S, C]; C is ``channels``.

    A step that truncation cut is left out. The lengths of the result count steps, without EOS. Values past a row's
    length, EOS among them, have no meaning.
    """
    size = (source.values.shape[1] - 1) // channels
    steps_BSC = source.values[:, : size * channels].reshape(len(source.values), size, channels)
    return Padded(steps_BSC, (source.lengths - 1) // channels)
