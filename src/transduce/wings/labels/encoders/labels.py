"""Encoders of labels: labels alone, or labels beside an encoder of the text that follows them."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.protocols import EmbedsTokens, Encoder, Table
from transduce.core.types import Memory, Padded
from transduce.layers.modules.dropout import Dropout
from transduce.layers.modules.embedding import TokenEmbedding


class LabelsEncoder(nn.Module):
    """Embeds the first ``labels`` ids of each row: states [B, labels, width]. The summary [B, labels * width]
    concatenates them. The memory's source is these ids alone.

    The source's unit is "labels", or "labelled", whose text this encoder ignores. A call raises UserError as
    ``check_labels`` does.
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
    """Adds labels to an encoder of ``text``: the embeddings of the first ``labels`` ids, concatenated, become one more
    part of its summary, the last one.

    The source's unit is "labelled". The labels have their own table [source_vocabulary, label_width], so the new part
    has labels * label_width features. The inner encoder reads the ids after the labels. The states, and the source for
    copying, belong to this text alone. Without this class, an encoder reads the labels as the first tokens (Johnson et
    al. 2017). A call raises UserError as ``check_labels`` does.
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
    def embedding(self) -> Table:
        """The text encoder's embedding, which can be tied to the target's."""
        return cast(EmbedsTokens, self.text).embedding

    def forward(self, source: Padded) -> Memory:
        check_labels(source, self.labels)
        labels_BLD: Tensor = self.dropout(self.label_embedding(source.values[:, : self.labels]))
        memory = self.text(Padded(source.values[:, self.labels :], source.lengths - self.labels))
        return replace(memory, summary=(memory.summary, labels_BLD.flatten(1)))


def check_labels(source: Padded, labels: int) -> None:
    """Raises UserError unless each row has ``labels`` ids and at least one more, which is EOS. Checks nothing while
    PyTorch traces a graph.
    """
    if torch.compiler.is_compiling():  # a graph cannot raise errors
        return
    shortest = int(source.lengths.min())
    if shortest <= labels:
        raise UserError(
            f"a source of {shortest} tokens, EOS included, cannot open with labels = {labels}: set data.units.source "
            f'to "labelled" or "labels", with labels = {labels}'
        )
