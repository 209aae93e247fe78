"""An encoder with short and long convolution kernels in each layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.protocols import Embedding
from transduce.core.types import Factory, Memory, Padded
from transduce.layers.modules import module_list
from transduce.layers.modules.convolution import Convolution, centred, check_centred
from transduce.layers.modules.dropout import Dropout
from transduce.layers.modules.embedding import TokenEmbedding
from transduce.layers.modules.linear import projection
from transduce.layers.modules.pooling import pool


class MultiKernelLayer(nn.Module):
    """A layer of convolutions with several kernels side by side, in a residual connection: x + W relu([conv_k(norm(x))
    for each kernel k]) + b. Maps x [B, S, D] to the same shape.

    Each kernel gives D features. The outputs of all kernels are concatenated (Kim 2014), and W projects them back to D
    features. Dropout applies to the term that is added to x. ``beyond_BS1`` is True at padding, which the convolutions
    read as zeros.
    """

    def __init__(self, width: int, kernels: tuple[int, ...], dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.convolutions = module_list(Convolution(width, width, kernel, variance=2.0) for kernel in kernels)
        self.merge = projection(len(kernels) * width, width)
        self.dropout = Dropout(dropout)

    def forward(self, x_BSD: Tensor, beyond_BS1: Tensor) -> Tensor:
        seen_BSD = self.norm(x_BSD).masked_fill(beyond_BS1, 0.0)
        read_BSE = torch.cat([layer(centred(seen_BSD, layer.kernel)) for layer in self.convolutions], -1)
        y_BSD: Tensor = x_BSD + self.dropout(self.merge(torch.relu_(read_BSE)))
        return y_BSD


class MultiKernelEncoder(nn.Module):
    """Convolutions with several ``kernels`` over embedded tokens, in ``layers`` residual layers. Each layer
    concatenates the outputs of its kernels and projects them.

    The layers are pre-norm, so training needs no long warm-up. In each layer a state [B, S, width] reads (longest
    kernel - 1) / 2 positions to either side. The summary is the average of a row's real states. There are no position
    embeddings: the kernels see the order. Raises UserError for an even kernel or no kernel.
    """

    def __init__(
        self,
        source_vocabulary: int,
        kernels: tuple[int, ...] = (3, 5, 11),
        width: int = 256,
        layers: int = 2,
        dropout: float = 0.1,
        embedding: Factory[Embedding] = TokenEmbedding,
    ) -> None:
        super().__init__()
        if not kernels:
            raise UserError("kernels = []: at least one kernel reads the source; (3, 5, 11) is usual")
        for kernel in kernels:
            check_centred(kernel)
        self.width = width
        self.summary_widths = (width,)
        self.embedding = embedding(vocabulary=source_vocabulary, width=width, scaled=True)
        self.dropout = Dropout(dropout)
        self.layers = module_list(MultiKernelLayer(width, kernels, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, source: Padded) -> Memory:
        embedded = self.embedding.embed(source)
        x_BSD = self.dropout(embedded.values)
        beyond_BS1 = ~embedded.mask[..., None]
        for layer in self.layers:
            x_BSD = layer(x_BSD, beyond_BS1)
        states = Padded(self.norm(x_BSD), embedded.lengths)
        return Memory(states, (pool(states, "mean"),), source)
