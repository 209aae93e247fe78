"""Layers of convolutional networks over grids [B, D, H, W]. They see zeros past a source's own columns."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.layers.modules.convolution import check_centred
from transduce.wings.signals.modules.grid import Grid, shortened
from transduce.wings.signals.modules.norms import CellNorm


class GridConvolution(nn.Module):
    """A two-dimensional convolution with zero padding: a grid keeps its height and width, divided by ``stride``,
    rounded up.

    The ``kernel`` is an odd number of cells in both directions; raises UserError for another one. Initialised for
    rectifiers (He et al. 2015, eq. 10).
    """

    def __init__(self, inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> None:
        super().__init__()
        check_centred(kernel)
        # Select the cells before a 1 by 1 convolution with a stride: torch 2.13 crashes in oneDNN in the gradient of
        # the direct form when features are last in memory.
        self.skipped = stride if kernel == 1 else 1
        self.convolution = nn.Conv2d(inputs, outputs, kernel, stride // self.skipped, padding=kernel // 2)
        nn.init.kaiming_normal_(self.convolution.weight, nonlinearity="relu")
        nn.init.zeros_(self.convolution.bias)  # type: ignore[arg-type]
        self.stride = stride

    @property
    def weight(self) -> Tensor:
        return self.convolution.weight

    def forward(self, x: Grid) -> Grid:
        # Features are last in memory, as the norms read them, so nothing is copied in between.
        kept_BDHW = x.real()[..., :: self.skipped, :: self.skipped]
        real_BDHW = kept_BDHW.contiguous(memory_format=torch.channels_last)
        return Grid(self.convolution(real_BDHW), shortened(x.widths, self.stride))


def relu(x: Grid) -> Grid:
    return Grid(x.values.relu(), x.widths)


class ResidualBlock(nn.Module):
    """A residual block on grids: x + conv(relu(norm(conv(relu(norm(x)))))) (He et al. 2016b, figure 4e).

    Maps a grid with ``inputs`` features to one with ``outputs`` features. The first convolution divides height and
    width by ``stride``, rounded up. If the shape changes, the x that is added passes through a 1 by 1 convolution with
    the same stride. ``norm`` makes a norm of a number of features.
    """

    def __init__(self, inputs: int, outputs: int, stride: int = 1, norm: type[nn.Module] = CellNorm) -> None:
        super().__init__()
        self.enter = norm(inputs)
        self.first = GridConvolution(inputs, outputs, stride=stride)
        self.between = norm(outputs)
        self.second = GridConvolution(outputs, outputs)
        plain = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if plain else GridConvolution(inputs, outputs, 1, stride)

    def forward(self, x: Grid) -> Grid:
        y = self.second(relu(self.between(self.first(relu(self.enter(x))))))
        return Grid(self.shortcut(x).values + y.values, y.widths)
