"""The encoder of ConvS2S."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.core.protocols import Positions
from transduce.core.types import Factory, Memory, Padded
from transduce.layers.modules import module_list
from transduce.layers.modules.convolution import HALVE, Convolution, GatedConvolution, centred, check_centred
from transduce.layers.modules.dropout import Dropout
from transduce.layers.modules.embedding import TokenEmbedding
from transduce.layers.modules.pooling import pool
from transduce.layers.modules.positions import Learned


class ConvS2SEncoder(nn.Module):
    """Gated convolutions over embedded tokens and positions: Gehring et al. 2017, sections 3.1 and 3.2.

    Let e = embedding + position, after dropout. Then h^0 = W e + b; h^l = (v^l(h^{l-1}) + h^{l-1}) sqrt(0.5), where v^l
    is a gated convolution, which reads its input after dropout; z = W' h^L + b'. The memory's states z [B, S,
    embedding_width] are the keys of attention, and (z + e) sqrt(0.5) are its values. The summary is the average of a
    row's real values. Weight normalisation is the only normalisation. Each layer reads ``kernel`` positions, an odd
    number, around each position, with zeros beyond both ends of a row. Raises UserError if the kernel is even.
    """

    def __init__(
        self,
        source_vocabulary: int,
        positions: Factory[Positions] = Learned,
        embedding_width: int = 256,
        width: int = 256,
        layers: int = 4,
        kernel: int = 3,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        check_centred(kernel)
        self.width = embedding_width
        self.summary_widths = (embedding_width,)
        self.kernel = kernel
        self.embedding = TokenEmbedding(source_vocabulary, embedding_width, scaled=False)
        nn.init.normal_(self.embedding.weight, std=0.1)  # section 3.5
        self.positions = positions(width=embedding_width)
        self.dropout = Dropout(dropout)
        self.widen = Convolution(embedding_width, width, variance=1 - dropout)
        self.layers = module_list(GatedConvolution(width, kernel, dropout) for _ in range(layers))
        self.narrow = Convolution(width, embedding_width)

    def forward(self, source: Padded) -> Memory:
        places_1S = torch.arange(source.values.shape[1], device=source.values.device)[None]
        embedded_BSE = self.dropout(self.embedding(source.values) + self.positions(places_1S))
        x_BSD: Tensor = self.widen(embedded_BSE)
        beyond_BS1 = ~source.mask[..., None]
        for layer in self.layers:
            seen_BSD = layer.dropout(x_BSD).masked_fill(beyond_BS1, 0.0)
            x_BSD = (layer(centred(seen_BSD, self.kernel)) + x_BSD) * HALVE
        states_BSE = self.narrow(x_BSD)
        values_BSE = (states_BSE + embedded_BSE) * HALVE
        summary = (pool(Padded(values_BSE, source.lengths), "mean"),)
        return Memory(Padded(states_BSE, source.lengths), summary, source, values_BSE)
