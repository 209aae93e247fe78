"""An encoder of pairs: it reads each sentence alone, with the same weights, and compares their vectors."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.protocols import EmbedsTokens, Encoder, Pooler, Table, memory_widths
from transduce.core.types import EOS, PAD, Factory, Memory, Padded
from transduce.layers.modules.dropout import Dropout
from transduce.layers.modules.linear import projection
from transduce.layers.modules.pooling import MaxPooling


class SiameseEncoder(nn.Module):
    """Encodes both sentences of a pair with one ``encoder``, and compares their vectors u and v (Conneau et al. 2017,
    section 3.2).

    The source's unit is "pair". ``pooling`` reduces what the encoder leaves of one sentence to a vector of D features.
    The summary is one tensor, the features [u, v, |u - v|, u * v] after dropout: [B, 4 D]. If ``hidden`` > 0, it is
    tanh(W x + b) of these features x instead, [B, hidden]. The states are u and v, [B, 2, D]. The memory's source is
    the pair. A call raises UserError for a row that does not have two sentences.
    """

    def __init__(
        self,
        encoder: Encoder,
        pooling: Factory[Pooler] = MaxPooling,
        hidden: int = 0,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.pooling = pooling(memory=memory_widths(encoder))
        self.width = self.pooling.width
        self.dropout = Dropout(dropout)
        self.hidden = projection(4 * self.width, hidden) if hidden else None
        self.summary_widths = (hidden or 4 * self.width,)

    @property
    def embedding(self) -> Table:
        """The inner encoder's embedding of tokens."""
        return cast(EmbedsTokens, self.encoder).embedding

    def sentences(self, source: Padded) -> Tensor:
        """The vector of each sentence, [B, D]. The rows are single sentences, not pairs, and end with EOS."""
        return self.pooling(self.encoder(source))

    def forward(self, source: Padded) -> Memory:
        vectors_2BD = self.sentences(both(source)).view(2, *source.lengths.shape, self.width)
        u_BD, v_BD = vectors_2BD[0], vectors_2BD[1]
        compared = self.dropout(torch.cat([u_BD, v_BD, (u_BD - v_BD).abs(), u_BD * v_BD], -1))
        if self.hidden is not None:
            compared = self.dropout(torch.tanh(self.hidden(compared)))
        states = Padded(torch.stack([u_BD, v_BD], 1), torch.full_like(source.lengths, 2))
        return Memory(states, (compared,), source)


def both(pair: Padded) -> Padded:
    """The sentences of B pairs as 2 B rows of ids: all first sentences, then all second ones. Each ends with EOS.

    Raises UserError if a row has only one sentence, as a pair does that was cut to ``data.lines.max_source_length``.
    Checks nothing while PyTorch traces a graph.
    """
    size = pair.values.shape[1]
    places_S = torch.arange(size, device=pair.values.device)
    first_B = (pair.values == EOS).long().argmax(1) + 1
    second_B = pair.lengths - first_B
    tracing = torch.compiler.is_compiling()  # a graph has no errors, and no shapes that follow from values
    if not tracing and int(second_B.min()) < 1:
        raise UserError(
            'a source has one sentence, and this model compares two: set data.units.source to "pair"; if the '
            "pair is longer than data.lines.max_source_length, raise this limit"
        )
    second_BS = pair.values.gather(1, (places_S + first_B[:, None]).clamp(max=size - 1))
    lengths = torch.cat([first_B, second_B])
    values = torch.cat([pair.values, second_BS])
    values = values.masked_fill(places_S >= lengths[:, None], PAD)
    return Padded(values if tracing else values[:, : int(lengths.max())], lengths)
