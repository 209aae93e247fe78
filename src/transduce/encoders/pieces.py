"""Encoders that read the pieces of words and return one state per word."""

from __future__ import annotations

from typing import Any, cast

from torch import nn

from transduce.modules.spelling import pieces
from transduce.protocols import Encoder
from transduce.types import Memory, Padded


class FirstPieceEncoder(nn.Module):
    """Any subword encoder, read at the first piece of each word (Devlin et al. 2019, section 5.3).

    States are [B, words + 1, width]; a row's last real state belongs to EOS. The inner ``encoder`` gives the summary.
    The source's unit is "spelled". The word marks of the source are removed before the inner encoder reads it.
    """

    def __init__(self, encoder: Encoder, source_vocabulary: int) -> None:
        super().__init__()
        self.alphabet = source_vocabulary
        self.encoder = encoder
        self.width = encoder.width
        self.summary_widths = encoder.summary_widths

    @property
    def embedding(self) -> nn.Module:
        """The embedding of the pieces."""
        embedding: nn.Module = cast(Any, self.encoder).embedding
        return embedding

    def forward(self, source: Padded) -> Memory:
        unmarked, begins = pieces(source, self.alphabet)
        memory = self.encoder(unmarked)
        place_BW1 = begins.values[..., None]
        states_BWD = memory.read_BSD.gather(1, place_BW1.expand(-1, -1, self.width))
        return Memory(Padded(states_BWD, begins.lengths), memory.summary, unmarked)
