"""The lambda layer: it summarises a row as linear functions, and applies these to queries.

B rows, S positions, H heads, D features of a query, E features of a head's values, K positions of the window.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.core.types import Padded
from transduce.layers.modules.attention.energies import mask_bias
from transduce.layers.modules.attention.heads import check_heads, merge_heads
from transduce.layers.modules.convolution import centred, check_centred, convolve_at
from transduce.layers.modules.dropout import Dropout
from transduce.layers.modules.linear import projection


class LambdaLayer(nn.Module):
    """A mixer without attention weights: it summarises a row as a matrix, and applies the matrix to queries (Bello
    2021, eq. 1-2):

    y_s = lambda_s' q_s for the query q_s [D] of each head at position s, with lambda_s = sum_m softmax_m(k_m) v_m' +
    sum_m e_{m-s} v_m' [D, E].

    k are keys, v values and e embeddings of the distance. The heads share lambda_s. The second sum covers ``window``
    positions (an odd number) around s. The first sum is one matrix [D, E] for a row of any length. Keys are normalised
    over the real positions. ``query_width`` is D. In training, ``dropout`` applies to the values. Maps [B, S, width] to
    the same shape.

    There are three differences from the paper. Queries and values have a layer norm instead of a batch norm, through
    which rows would depend on each other. There is an output projection, as in attention; the paper has the next
    convolution instead. Embeddings are drawn from N(0, 1 / (D window)), so that the output starts at the scale of the
    values.
    """

    def __init__(self, width: int, heads: int, dropout: float, query_width: int = 16, window: int = 23) -> None:
        super().__init__()
        check_heads(width, heads)
        check_centred(window, "window")
        self.heads, self.window = heads, window
        self.widths = [heads * query_width, query_width, width // heads]
        self.project = nn.Linear(width, sum(self.widths), bias=False)
        nn.init.normal_(self.project.weight, std=width**-0.5)
        self.query_norm = nn.LayerNorm(query_width)
        self.value_norm = nn.LayerNorm(width // heads)
        self.dropout = Dropout(dropout)
        self.distance_KD = nn.Parameter(torch.randn(window, query_width) * (window * query_width) ** -0.5)
        self.out = projection(width, width)

    def forward(self, x: Padded) -> Tensor:
        query, key_BSD, value = self.project(x.values).split(self.widths, -1)
        query_BSHD = self.query_norm(query.unflatten(-1, (self.heads, -1)))
        value_BSE = self.dropout(self.value_norm(value)).masked_fill(~x.mask[..., None], 0.0)
        share_BSD = torch.softmax(key_BSD + mask_bias(x.mask, key_BSD.dtype)[..., None], 1).to(value_BSE.dtype)
        content_BDE = torch.matmul(share_BSD.transpose(1, 2), value_BSE)
        B, S, H, D = query_BSHD.shape
        content = torch.matmul(query_BSHD.reshape(B, S * H, D), content_BDE).view(B, S, -1)
        # q'(sum e v') = sum (q'e) v': this needs no matrix [D, E] for each position.
        near_BHSK = torch.matmul(query_BSHD, self.distance_KD.t()).transpose(1, 2)
        position_BHSE = convolve_at(centred(value_BSE, self.window)[:, None], near_BHSK)
        y_BSD: Tensor = self.out(content + merge_heads(position_BHSE))
        return y_BSD
