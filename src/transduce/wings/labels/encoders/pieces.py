"""Encoders that read the pieces of words and return one state per word."""

from __future__ import annotations

from typing import cast

from torch import nn

from transduce.core.protocols import EmbedsTokens, Encoder, Table
from transduce.core.types import Memory, Padded
from transduce.wings.labels.spelling import pieces


class FirstPieceEncoder(nn.Module):
    """Any subword encoder, read at the first piece of each word (Devlin et al. 2019, section 5.3).

    States are [B, W, width], where W is the number of words of the longest row and its EOS; a row's last real state
    belongs to EOS. They are the inner memory's values. The inner ``encoder`` gives the summary. The source's unit is
    "spelled"; a call raises UserError for a source without the marks of words. The inner encoder reads the source
    without these marks, and this is the memory's source.
    """

    def __init__(self, encoder: Encoder, source_vocabulary: int) -> None:
        super().__init__()
        self.alphabet = source_vocabulary
        self.encoder = encoder
        self.width = encoder.width
        self.summary_widths = encoder.summary_widths

    @property
    def embedding(self) -> Table:
        """The inner encoder's embedding of the pieces."""
        return cast(EmbedsTokens, self.encoder).embedding

    def forward(self, source: Padded) -> Memory:
        unmarked, begins = pieces(source, self.alphabet)
        memory = self.encoder(unmarked)
        place_BW1 = begins.values[..., None]
        states_BWD = memory.read_BSD.gather(1, place_BW1.expand(-1, -1, self.width))
        return Memory(Padded(states_BWD, begins.lengths), memory.summary, unmarked)
