"""Attention with convolutions as queries, keys and values. B sources, D features, N cells of a grid, H heads."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.protocols import Embedding
from transduce.core.types import Factory, Padded
from transduce.layers.modules import module_list
from transduce.layers.modules.attention.energies import mask_bias
from transduce.layers.modules.attention.heads import Heads, check_heads, merge_heads, split_heads
from transduce.layers.modules.dropout import Dropout
from transduce.wings.signals.modules.base import Gridded, Placed
from transduce.wings.signals.modules.grid import Grid
from transduce.wings.signals.modules.grid_convolutions import GridConvolution
from transduce.wings.signals.modules.norms import CellNorm


class ConvolutionalAttention(nn.Module):
    """Attention over all cells of a grid, with convolutions as projections: W_o * softmax(q' k / sqrt(D)) v, with q =
    W_q * x, k = W_k * x and v = W_v * x.

    Here * is a convolution: with W_q, W_k and W_v of ``kernel`` by ``kernel`` cells, with W_o of one cell. All have
    biases. D is the width of a head. The weights of each query sum to 1 over the real cells of its source. A lecture's
    layer multiplies by the transpose instead, so that weights sum to 1 over queries, and does not scale.
    """

    def __init__(self, width: int, heads: int, dropout: float, kernel: int) -> None:
        super().__init__()
        check_heads(width, heads)
        self.count = heads
        self.project = GridConvolution(width, 3 * width, kernel)
        nn.init.xavier_uniform_(self.project.weight)
        self.heads = Heads(dropout)
        self.out = GridConvolution(width, width, 1)
        nn.init.xavier_uniform_(self.out.weight)

    def forward(self, x: Grid) -> Grid:
        rows, columns = x.values.shape[2:]
        projected_BNE = self.project(x).values.flatten(2).transpose(1, 2)
        query, key, value = split_heads(projected_BNE.contiguous(), 3, self.count)
        real_BW = Padded(x.values[:, 0, 0], x.widths).mask
        bias_B11N = mask_bias(real_BW.repeat(1, rows), x.values.dtype)[:, None, None]
        read_BDN = merge_heads(self.heads(query, key, value, bias_B11N)).transpose(1, 2)
        mixed: Grid = self.out(Grid(torch.unflatten(read_BDN, 2, (rows, columns)), x.widths))
        return mixed


class ConvolutionallyAttended(nn.Module):
    """An embedding of pictures: ``layers`` layers of convolutional attention over the grid of another ``embedding``
    (``map`` or ``patches``).

    Each layer is in a residual connection, x + dropout(attention(norm(x))), with a norm at the end. Convolutions read
    near cells and attention distant ones, as in the attention augmented networks of Bello et al. 2019. Convolutions as
    attention's projections come from Wu et al. 2021, section 3.2 (CvT). Attention knows positions only through the
    ``positions`` of the embedding. Raises UserError if the embedding has no grid.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        scaled: bool,
        embedding: Factory[Embedding],
        layers: int = 1,
        heads: int = 4,
        kernel: int = 3,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        inner = embedding(vocabulary=vocabulary, width=width, scaled=scaled)
        if not hasattr(inner, "grid"):
            raise UserError(
                f'embedding: {type(inner).__name__} lays nothing on a grid, and this attends over one; set it to "map" '
                'or "patches"'
            )
        self.embedding = inner
        self.norms = module_list(CellNorm(width) for _ in range(layers))
        self.layers = module_list(ConvolutionalAttention(width, heads, dropout, kernel) for _ in range(layers))
        self.dropout = Dropout(dropout)
        self.final = CellNorm(width)

    def grid(self, source: Padded) -> Grid:
        x = cast(Gridded, self.embedding).grid(source)
        for norm, attention in zip(self.norms, self.layers, strict=True):
            x = Grid(x.values + self.dropout(attention(norm(x)).values), x.widths)
        left: Grid = self.final(x)
        return left

    def embed(self, source: Padded) -> Padded:
        return self.grid(source).flat()

    def boxes(self, source: Padded) -> Tensor:
        return cast(Placed, self.embedding).boxes(source)
