"""Signals as grids: rows and columns of features, flattened to cells row by row.

B sources, S steps, D numbers a step or features of a cell, C channels, H rows of a grid, W columns, N cells.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.protocols import Positions
from transduce.core.types import Factory, Padded, real_mask


@dataclass(frozen=True)
class Grid:
    """Features [B, D, H, W] on a grid. The first ``widths`` [B] columns of each source are real, and all H rows."""

    values: Tensor
    widths: Tensor

    def real(self) -> Tensor:
        """The features [B, D, H, W], with zeros past each source's own columns."""
        W = self.values.shape[3]
        # On other devices the check would wait for the device, and an exported graph cannot branch.
        if self.values.device.type == "cpu" and not torch.compiler.is_compiling() and int(self.widths.min()) == W:
            return self.values
        # Rows are as long as columns and features together: short rows of features would take five times as long.
        cells_BHWD = self.values.permute(0, 2, 3, 1)
        mask_BWD = real_mask(self.widths, W)[..., None].expand(-1, -1, cells_BHWD.shape[3])
        real_BHX = cells_BHWD.flatten(2) * mask_BWD.flatten(1)[:, None].to(cells_BHWD.dtype)
        return real_BHX.view(cells_BHWD.shape).permute(0, 3, 1, 2)

    def flat(self) -> Padded:
        """The cells [B, N, D] row by row, where N = H * W; a source has H times its own width of them.

        Their order depends on the source's own columns, not on other sources of the batch.
        """
        _, D, H, W = self.values.shape
        row_BN, column_BN = cells(H, self.widths, W)
        index_B1N = (row_BN * W + column_BN).clamp_(max=H * W - 1)[:, None]
        cells_BDN = self.values.flatten(2).gather(2, index_B1N.expand(-1, D, -1))
        return Padded(cells_BDN.transpose(1, 2), H * self.widths)


def picture(source: Padded, height: int, like: Tensor) -> Grid:
    """Rows [B, S, C * height], whose steps are columns, as grids [B, C, height, S] of the type of ``like``. Raises
    UserError if the source is not a signal.
    """
    columns_BSD = steps(source)
    return Grid(torch.unflatten(columns_BSD.to(like.dtype).transpose(1, 2), 1, (-1, height)), source.lengths)


def steps(source: Padded) -> Tensor:
    """The numbers of a signal, [B, S, D]. Raises UserError if the source is not a signal, but ids or a series."""
    if source.values.ndim != 3 or not source.values.is_floating_point():
        raise UserError(
            f"an embedding of signals was given {'numbers in a line' if source.values.is_floating_point() else 'ids'}"
            ', not steps of several numbers: set data.units.source to "sound", "picture" or "clip", or leave '
            "model.encoder.embedding out"
        )
    return source.values


def check_height(vocabulary: int, height: int, channels: int) -> None:
    """Raises UserError unless ``vocabulary``, the numbers of a picture's column, is ``height`` times ``channels``, and
    both are at least 1.
    """
    if height < 1 or channels < 1 or height * channels != vocabulary:
        raise UserError(
            f"height * channels = {height} * {channels} = {height * channels}, but a step of the source, a column of a "
            f"picture, has {vocabulary} numbers: make these equal (the picture's height is the unit's, grey has 1 "
            "channel and colour 3)"
        )


def shortened(lengths: Tensor, stride: int) -> Tensor:
    """The lengths after a convolution with this ``stride``: divided by it and rounded up."""
    return (lengths + stride - 1) // stride


def cells(rows: int, widths_B: Tensor, widest: int) -> tuple[Tensor, Tensor]:
    """The row and the column [B, N] of each cell of grids with ``rows`` rows and their own widths, row by row.

    N is the number of cells of a grid with the width ``widest``. Narrower grids go on with rows that they do not have.
    """
    places_N = torch.arange(rows * widest, device=widths_B.device)
    return places_N // widths_B[:, None], places_N % widths_B[:, None]


def boxes(cell: tuple[int, int], height: int, widths_B: Tensor, strided: bool = False) -> Tensor:
    """[B, N, 4]: left, top, right and bottom of each cell, row by row, as fractions of the source's own width and
    height.

    Each cell covers ``cell`` (rows, columns) of a picture with ``height`` rows and ``widths_B`` columns. ``strided``
    convolutions centre a cell on its first pixel; its box then has the pixels nearest to that one. Boxes past a
    source's last cell are zeros.
    """
    tall, wide = cell
    columns_B = shortened(widths_B, wide)
    row_BN, column_BN = cells(-(-height // tall), columns_B, int(columns_B.max()))
    left, right = _edges(column_BN, wide, widths_B[:, None], strided)
    top, bottom = _edges(row_BN, tall, torch.full_like(widths_B, height)[:, None], strided)
    real_BN = row_BN * tall < height
    return torch.stack([left, top, right, bottom], -1) * real_BN[..., None]


def _edges(place_BN: Tensor, size: int, extent_B1: Tensor, strided: bool) -> tuple[Tensor, Tensor]:
    """The beginning and the end of each place as fractions of the extent. The last place reaches to the end."""
    back = (size - 1) / 2 if strided else 0.0
    begin_BN, end_BN = (((place_BN + side) * size - back).clamp(min=0) / extent_B1 for side in (0, 1))
    return begin_BN, end_BN.masked_fill((place_BN + 1) * size >= extent_B1, 1.0)


class GridPositions(nn.Module):
    """Adds to each cell the encoding of its row, in the first half of the features, and of its column, in the other
    half.

    Dosovitskiy et al. 2021, appendix D.4. Any kind of ``positions`` can be used.
    """

    def __init__(self, positions: Factory[Positions], width: int) -> None:
        super().__init__()
        self.halves = [width // 2, width - width // 2]
        self.rows, self.columns = (positions(width=half) for half in self.halves)

    def forward(self, x: Grid) -> Grid:
        _, _, H, W = x.values.shape
        above_BHWD, beside_BHWD = torch.split(x.values.permute(0, 2, 3, 1), self.halves, -1)
        rows_H, columns_W = (torch.arange(size, device=x.values.device) for size in (H, W))
        placed = (above_BHWD + self.rows(rows_H[:, None]), beside_BHWD + self.columns(columns_W[None]))
        return Grid(torch.cat(placed, -1).permute(0, 3, 1, 2), x.widths)
