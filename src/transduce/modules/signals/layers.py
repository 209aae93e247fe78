"""Layers of convolutional networks over grids [B, D, H, W]. They see zeros past a source's own columns."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.modules.convolution import check_centred
from transduce.modules.signals.grid import Grid, shortened


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


class ChannelNorm(nn.Module):
    """Layer norm over the features (axis 1) of each cell of a grid.

    The papers' networks have batch norm. It would let sources see the other sources of their batch, and the padding.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Grid) -> Grid:
        return Grid(self.norm(x.values.permute(0, 2, 3, 1)).permute(0, 3, 1, 2), x.widths)


class PictureNorm(nn.Module):
    """Instance norm: subtracts from each feature its mean over the cells of one picture, and divides by its standard
    deviation (Ulyanov et al. 2016, eq. 4). A learned scale and shift of each feature follow.

    Only a source's own cells count. ``ChannelNorm`` is no replacement before pictures with noise: it makes the noise
    of an empty cell as strong as ink.
    """

    def __init__(self, width: int, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width))
        self.epsilon = epsilon

    def forward(self, x: Grid) -> Grid:
        cells_BHWD = x.real().permute(0, 2, 3, 1)
        cells_BND = cells_BHWD.flatten(1, 2)
        exact = torch.promote_types(cells_BND.dtype, torch.float32)  # sums of many cells
        count_B1 = (cells_BHWD.shape[1] * x.widths).clamp(min=1)[:, None]
        mean_BD = cells_BND.sum(1, dtype=exact) / count_B1
        square_BD = (cells_BND * cells_BND).sum(1, dtype=exact) / count_B1
        scale_BD = self.scale * torch.rsqrt((square_BD - mean_BD * mean_BD).clamp(min=0) + self.epsilon)
        shift_BD = self.shift - mean_BD * scale_BD
        normal_BND = torch.addcmul(shift_BD[:, None], cells_BND, scale_BD[:, None]).to(cells_BND.dtype)
        return Grid(normal_BND.view(cells_BHWD.shape).permute(0, 3, 1, 2), x.widths)


def relu(x: Grid) -> Grid:
    return Grid(x.values.relu(), x.widths)


class ResidualBlock(nn.Module):
    """A residual block on grids: x + conv(relu(norm(conv(relu(norm(x)))))) (He et al. 2016b, figure 4e).

    Maps a grid with ``inputs`` features to one with ``outputs`` features. The first convolution divides height and
    width by ``stride``, rounded up. If the shape changes, the x that is added passes through a 1 by 1 convolution with
    the same stride.
    """

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
