"""Labels as vectors of their own: alone, or beside what an encoder makes of the text behind them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from transduce.modules.dropout import Dropout
from transduce.modules.embedding import TokenEmbedding
from transduce.protocols import Encoder
from transduce.types import Memory, Padded


class LabelsEncoder(nn.Module):
    """The first ``labels`` ids of each row as vectors: the states [B, labels, width], and side by side the summary.

    Source of the unit "labels", or of "labelled", whose text is not read.
    """

    def __init__(self, source_vocabulary: int, labels: int = 1, width: int = 64, dropout: float = 0.1) -> None:
        super().__init__()
        self.labels = labels
        self.width = width
        self.summary_widths = (labels * width,)
        self.embedding = TokenEmbedding(source_vocabulary, width, scaled=False)
        self.dropout = Dropout(dropout)

    def forward(self, source: Padded) -> Memory:
        check_labels(source, self.labels)
        ids = Padded(source.values[:, : self.labels], torch.full_like(source.lengths, self.labels))
        x_BLD = self.dropout(self.embedding(ids.values))
        return Memory(Padded(x_BLD, ids.lengths), (x_BLD.flatten(1),), ids)


class LabelledEncoder(nn.Module):
    """Any encoder for the text, and its ``labels`` beside it; source of the unit "labelled".

    The labels are embedded in a table of their own, [source_vocabulary, label_width], and join the summary; the
    states, and the source for copying, are the text's. A plain encoder of the same source reads the labels as its
    first tokens instead (Johnson et al. 2017).
    """

    def __init__(
        self, source_vocabulary: int, text: Encoder, labels: int = 1, label_width: int = 64, dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.labels = labels
        self.text = text
        self.width = text.width
        self.summary_widths = (*text.summary_widths, labels * label_width)
        self.label_embedding = TokenEmbedding(source_vocabulary, label_width, scaled=False)
        self.dropout = Dropout(dropout)

    @property
    def embedding(self) -> nn.Module:
        """The text's, to be tied with the target's."""
        embedding: nn.Module = cast(Any, self.text).embedding
        return embedding

    def forward(self, source: Padded) -> Memory:
        check_labels(source, self.labels)
        labels_BLD: Tensor = self.dropout(self.label_embedding(source.values[:, : self.labels]))
        memory = self.text(Padded(source.values[:, self.labels :], source.lengths - self.labels))
        return replace(memory, summary=(memory.summary, labels_BLD.flatten(1)))


def check_labels(source: Padded, labels: int) -> None:
    """Raise ValueError unless every row has ``labels`` ids and at least EOS behind them."""
    shortest = int(source.lengths.min())
    if shortest <= labels:
        raise ValueError(
            f"a source of {shortest} tokens, EOS included, cannot open with labels = {labels}: set data.units.source "
            f'to "labelled" or "labels", with labels = {labels}'
        )
