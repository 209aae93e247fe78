"""The Conformer: self-attention for distant positions, convolutions for near ones. B rows, S positions, D features."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from transduce.core.protocols import Embedding, FeedForward, Mixer, Relative
from transduce.core.types import Factory, Memory, Padded
from transduce.layers.modules import module_list
from transduce.layers.modules.attention.relative import Rotary
from transduce.layers.modules.dropout import Dropout
from transduce.layers.modules.embedding import TokenEmbedding
from transduce.layers.modules.feedforward import PlainFeedForward
from transduce.layers.modules.mixers.attention import SelfAttention
from transduce.layers.modules.pooling import pool
from transduce.layers.modules.residual import PreNorm
from transduce.wings.signals.modules.conformer import ConvolutionModule


class ConformerLayer(nn.Module):
    """One layer of the Conformer (Gulati et al. 2020, eq. 1). Maps x [B, S, D] to the same shape:

    x <- x + F(x) / 2; x <- x + attention(x); x <- x + convolution(x); x <- norm(x + G(x) / 2).

    F and G are feed-forward networks with weights of their own. Each of the four functions first normalises x with a
    norm of its own. Dropout applies to each term that is added to x.
    """

    def __init__(
        self, width: int, attention: Mixer, convolution: Mixer, feedforward: Factory[FeedForward], dropout: float
    ) -> None:
        super().__init__()
        self.attention, self.convolution = attention, convolution
        self.first, self.last = (feedforward(width=width, dropout=dropout) for _ in range(2))
        self.around = module_list(PreNorm(width, dropout) for _ in range(4))
        self.norm = nn.LayerNorm(width)

    def forward(self, x_BSD: Tensor, lengths_B: Tensor) -> Tensor:
        before, attending, convolving, after = self.around
        x_BSD = before.leave(x_BSD, 0.5 * self.first(before.enter(x_BSD)))
        for around, mixer in ((attending, self.attention), (convolving, self.convolution)):
            x_BSD = around.leave(x_BSD, mixer(Padded(around.enter(x_BSD), lengths_B)))
        y_BSD: Tensor = self.norm(after.leave(x_BSD, 0.5 * self.last(after.enter(x_BSD))))
        return y_BSD


class ConformerEncoder(nn.Module):
    """The Conformer of Gulati et al. 2020.

    Each layer has self-attention and a convolution over ``kernel`` positions, between two half-step feed-forward
    networks. For speech, use the embedding ``subsampling``; tokens work too. The states are [B, S', width], where S' is
    the number of embedded positions. The summary is the average of a row's real states.

    Unlike the paper, it has rotary positions by default (``relative``) instead of Transformer-XL's, and layer norm
    instead of batch norm in the convolution. ``feedforward`` is the hidden width of ``PlainFeedForward`` with swish, or
    a table that chooses another network. Raises UserError if the kernel is even.
    """

    def __init__(
        self,
        source_vocabulary: int,
        width: int = 256,
        layers: int = 4,
        heads: int = 4,
        feedforward: Factory[FeedForward] | int = 1024,
        kernel: int = 31,
        dropout: float = 0.1,
        relative: Factory[Relative] = Rotary,
        embedding: Factory[Embedding] = TokenEmbedding,
    ) -> None:
        super().__init__()
        if isinstance(feedforward, int):
            feedforward = partial(PlainFeedForward, hidden=feedforward, activation="swish")
        self.width = width
        self.summary_widths = (width,)
        self.embedding = embedding(vocabulary=source_vocabulary, width=width, scaled=True)
        self.dropout = Dropout(dropout)
        self.layers = module_list(
            ConformerLayer(
                width,
                SelfAttention(width, heads, dropout, relative),
                ConvolutionModule(width, heads, dropout, kernel),
                feedforward,
                dropout,
            )
            for _ in range(layers)
        )

    def forward(self, source: Padded) -> Memory:
        embedded = self.embedding.embed(source)
        x_BSD = self.dropout(embedded.values)
        for layer in self.layers:
            x_BSD = layer(x_BSD, embedded.lengths)
        states = Padded(x_BSD, embedded.lengths)
        return Memory(states, (pool(states, "mean"),), source)
