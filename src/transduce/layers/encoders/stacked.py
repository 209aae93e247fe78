"""Encoders that stack equal layers over embedded tokens."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from transduce.core.protocols import Embedding, FeedForward, Mixer, Positions, Residual
from transduce.core.types import Factory, Memory, Padded
from transduce.layers.modules import module_list
from transduce.layers.modules.blocks import EncoderLayer, sublayers
from transduce.layers.modules.dropout import Dropout
from transduce.layers.modules.embedding import TokenEmbedding
from transduce.layers.modules.mixers.attention import SelfAttention
from transduce.layers.modules.pooling import pool
from transduce.layers.modules.residual import PreNorm


class TransformerEncoder(nn.Module):
    """The encoder of Vaswani et al. 2017. ``norm`` chooses pre-norm (the default) or post-norm. The states are [B, S,
    width], and the summary is the average of a row's real states.

    ``mixer`` is one mixer for all layers, or an array with one per layer, the lowest first; the default is the paper's
    self-attention. ``feedforward`` is the hidden width of ``PlainFeedForward``, or a table that chooses another
    network. ``embedding`` makes the vectors to which the positions are added; the default looks up one for each token
    id. Raises UserError for an array of another length than ``layers``.
    """

    def __init__(
        self,
        source_vocabulary: int,
        positions: Factory[Positions],
        width: int = 256,
        layers: int = 3,
        heads: int = 4,
        feedforward: Factory[FeedForward] | int = 1024,
        dropout: float = 0.1,
        norm: Factory[Residual] = PreNorm,
        mixer: Factory[Mixer] | Sequence[Factory[Mixer]] = SelfAttention,
        embedding: Factory[Embedding] = TokenEmbedding,
    ) -> None:
        super().__init__()
        self.width = width
        self.summary_widths = (width,)
        self.embedding = embedding(vocabulary=source_vocabulary, width=width, scaled=True)
        self.positions = positions(width=width)
        self.dropout = Dropout(dropout)
        self.layers = module_list(
            EncoderLayer(width, mix, transform, norm, dropout)
            for mix, transform in sublayers(layers, width, heads, dropout, mixer, feedforward)
        )
        self.norm = norm(width=width, dropout=dropout).final()

    def forward(self, source: Padded) -> Memory:
        embedded = self.embedding.embed(source)
        places_1S = torch.arange(embedded.values.shape[1], device=embedded.values.device)[None]
        x_BSD = self.dropout(embedded.values + self.positions(places_1S))
        for layer in self.layers:
            x_BSD = layer(x_BSD, embedded.lengths)
        states = Padded(self.norm(x_BSD), embedded.lengths)
        return Memory(states, (pool(states, "mean"),), source)
