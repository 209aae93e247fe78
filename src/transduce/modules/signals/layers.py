"""Layers of convolutional networks over grids [B, D, H, W], which see zeros beyond a source's own columns."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.modules.convolution import check_centred
from transduce.modules.signals.grid import Grid, shortened


class GridConvolution(nn.Module):
    """A convolution in both directions; with a ``stride`` every so many rows and columns are kept, begun ones counted.

    Drawn for rectifiers (He et al. 2015, eq. 10).
    """

    def __init__(self, inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> None:
        super().__init__()
        check_centred(kernel)
        # Of single cells those kept are taken out first: torch 2.13 crashes (oneDNN, the gradient of a convolution of
        # 1 by 1 with a stride, features last in memory).
        self.skipped = stride if kernel == 1 else 1
        self.convolution = nn.Conv2d(inputs, outputs, kernel, stride // self.skipped, padding=kernel // 2)
        nn.init.kaiming_normal_(self.convolution.weight, nonlinearity="relu")
        nn.init.zeros_(self.convolution.bias)  # type: ignore[arg-type]
        self.stride = stride

    @property
    def weight(self) -> Tensor:
        return self.convolution.weight

    def forward(self, x: Grid) -> Grid:
        # Features last in memory, as the norms read them: nothing is copied in between.
        kept_BDHW = x.real()[..., :: self.skipped, :: self.skipped]
        real_BDHW = kept_BDHW.contiguous(memory_format=torch.channels_last)
        return Grid(self.convolution(real_BDHW), shortened(x.widths, self.stride))


class ChannelNorm(nn.Module):
    """Layer norm over the features of each cell, where networks of the papers have batch norm: that would let sources
    see their company, and its padding."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Grid) -> Grid:
        return Grid(self.norm(x.values.permute(0, 2, 3, 1)).permute(0, 3, 1, 2), x.widths)


def relu(x: Grid) -> Grid:
    return Grid(x.values.relu(), x.widths)


class ResidualBlock(nn.Module):
    """x + conv(relu(norm(conv(relu(norm(x)))))): He et al. 2016b, figure 4e. Where the ``stride`` or the number of
    features changes, x comes through a convolution of one cell."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.enter = ChannelNorm(inputs)
        self.first = GridConvolution(inputs, outputs, stride=stride)
        self.between = ChannelNorm(outputs)
        self.second = GridConvolution(outputs, outputs)
        plain = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if plain else GridConvolution(inputs, outputs, 1, stride)

    def forward(self, x: Grid) -> Grid:
        y = self.second(relu(self.between(self.first(relu(self.enter(x))))))
        return Grid(self.shortcut(x).values + y.values, y.widths)
