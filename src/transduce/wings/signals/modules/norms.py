"""Norms of grids [B, D, H, W]. A source never sees the other sources of its batch, or the padding.

B sources, D features of a cell, H rows of a grid, W columns.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from transduce.compute.autograd import Context
from transduce.wings.signals.modules.grid import Grid


class CellNorm(nn.Module):
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

    Only a source's own cells count. Use it for pictures with noise, where ``CellNorm`` makes the noise of an empty cell
    as strong as ink.
    """

    def __init__(self, width: int, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width))
        self.epsilon = epsilon

    def forward(self, x: Grid) -> Grid:
        cells_BHWD = x.real().permute(0, 2, 3, 1)
        counts_B = (cells_BHWD.shape[1] * x.widths).clamp(min=1)
        inputs = cells_BHWD, counts_B, self.scale, self.shift, self.epsilon
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            normal_BHWD = _Normalised.apply(*inputs)  # type: ignore[no-untyped-call]
        else:  # a compiler or an exporter does not know a function with a gradient of its own
            normal_BHWD, _, _ = _normalised(*inputs)
        return Grid(normal_BHWD.permute(0, 3, 1, 2), x.widths)


NORMS: Final[dict[str, type[nn.Module]]] = {"cell": CellNorm, "picture": PictureNorm}


class _Normalised(torch.autograd.Function):
    """``PictureNorm`` of cells [B, H, W, D]. Autograd would pass over the cells more than twice as often for the
    gradient.
    """

    @staticmethod
    def forward(
        ctx: Context, cells_BHWD: Tensor, counts_B: Tensor, scale_D: Tensor, shift_D: Tensor, epsilon: float
    ) -> Tensor:
        normal_BHWD, mean_BD, inverse_BD = _normalised(cells_BHWD, counts_B, scale_D, shift_D, epsilon)
        ctx.save_for_backward(cells_BHWD, counts_B, scale_D, mean_BD, inverse_BD)
        return normal_BHWD

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, gradient_BHWD: Tensor) -> tuple[Tensor | None, ...]:
        cells_BHWD, counts_B, scale_D, mean_BD, inverse_BD = ctx.saved_tensors
        slope_BD = scale_D * inverse_BD  # y = slope * x + shift - slope * mean
        sum_BD = _sums(gradient_BHWD)
        for_slope_BD = _sums(gradient_BHWD * cells_BHWD) - mean_BD * sum_BD
        for_square_BD = for_slope_BD * scale_D * -0.5 * inverse_BD**3  # of the mean square
        for_mean_BD = -slope_BD * sum_BD - 2 * mean_BD * for_square_BD
        for_cells_BHWD = _affine(cells_BHWD, 2 * for_square_BD / counts_B[:, None], for_mean_BD / counts_B[:, None])
        _add_scaled(for_cells_BHWD, gradient_BHWD, slope_BD)
        return for_cells_BHWD, None, (for_slope_BD * inverse_BD).sum(0), sum_BD.sum(0), None


def _normalised(
    cells_BHWD: Tensor, counts_B: Tensor, scale_D: Tensor, shift_D: Tensor, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The normalised cells, the mean of each feature [B, D], and the inverse of its standard deviation."""
    mean_BD = _sums(cells_BHWD) / counts_B[:, None]
    square_BD = _sums(cells_BHWD * cells_BHWD) / counts_B[:, None]
    inverse_BD = torch.rsqrt((square_BD - mean_BD * mean_BD).clamp(min=0) + epsilon)
    slope_BD = (scale_D * inverse_BD).to(cells_BHWD.dtype)  # the shift makes up for what the rounded slope changes
    return _affine(cells_BHWD, slope_BD, shift_D - mean_BD * slope_BD), mean_BD, inverse_BD


# The next functions see a row of cells as W * D numbers. D alone is too few for a loop over numbers to be fast.


def _sums(cells_BHWD: Tensor) -> Tensor:
    """The sum of each feature over the cells of a picture, [B, D], at least in float32.

    Sums over rows are rounded to the cells' own type: in bfloat16 this takes a fifth of the time.
    """
    exact = torch.promote_types(cells_BHWD.dtype, torch.float32)
    return cells_BHWD.flatten(2).sum(1).view(cells_BHWD.shape[0], *cells_BHWD.shape[2:]).sum(1, dtype=exact)


def _affine(cells_BHWD: Tensor, slope_BD: Tensor, shift_BD: Tensor) -> Tensor:
    slope_B1X, shift_B1X = (_repeated(each_BD, cells_BHWD) for each_BD in (slope_BD, shift_BD))
    return torch.addcmul(shift_B1X, cells_BHWD.flatten(2), slope_B1X).view(cells_BHWD.shape)


def _add_scaled(to_BHWD: Tensor, cells_BHWD: Tensor, slope_BD: Tensor) -> None:
    to_BHWD.view(*to_BHWD.shape[:2], -1).addcmul_(cells_BHWD.flatten(2), _repeated(slope_BD, cells_BHWD))


def _repeated(each_BD: Tensor, like_BHWD: Tensor) -> Tensor:
    """[B, 1, W * D]: the numbers of each feature, for all W cells of a row."""
    W = like_BHWD.shape[2]
    return each_BD.to(like_BHWD.dtype)[:, None].expand(-1, W, -1).flatten(1)[:, None]
