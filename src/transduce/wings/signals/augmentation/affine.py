"""Affine changes of pictures. B pictures, C channels, H rows, W columns; pictures of a batch may differ in width."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from transduce.core.errors import UserError
from transduce.core.types import Padded
from transduce.training.augmentation import check_share, uniform


@dataclass(frozen=True)
class Affine:
    """Changes pictures in training: rotates each one about its middle, shears, scales and moves it (Simard et al.
    2003).

    The amounts are uniform random numbers: up to ``rotation`` and ``shear`` degrees in either direction, and a factor
    from 1 - ``scale`` to 1 + ``scale``. The picture moves along each axis by up to ``shift`` times its height. Values
    between pixels are interpolated linearly. Values outside the picture equal the nearest pixel of its edge. The size
    does not change. ``channels`` is the number of channels in the unit: 1 for grey, 3 for colour. A call raises
    UserError if the numbers of a column are not a multiple of it.
    """

    rotation: float = 5.0
    shear: float = 5.0
    scale: float = 0.1
    shift: float = 0.05
    channels: int = 1

    def __post_init__(self) -> None:
        check_share("rotation", self.rotation, 180.0)
        check_share("shear", self.shear, 60.0)
        check_share("scale", self.scale, 0.9)
        check_share("shift", self.shift)
        if self.channels < 1:
            raise UserError(f"channels = {self.channels}: at least 1 was expected")

    def __call__(self, source: Padded, ids_B: Tensor, epoch: int, seed: int) -> Padded:
        if source.values.shape[2] % self.channels:
            raise UserError(
                f"channels = {self.channels}: a column of {source.values.shape[2]} numbers does not divide into so "
                "many; set training.augmentation's channels to those of the unit"
            )
        return self.moved(source, uniform(ids_B, epoch, seed, 5))

    def moved(self, source: Padded, draws_BN: Tensor) -> Padded:
        """Changes the pictures by given random numbers instead of its own: ``draws_BN`` [B, 5] in [0, 1) are for
        rotation, shear, scale, shift to the left and shift up. A value of 0.5 changes nothing; smaller values change
        the picture in the opposite direction.
        """
        picture_BCHW = torch.unflatten(source.values.transpose(1, 2), 1, (self.channels, -1))
        H, W = picture_BCHW.shape[2:]
        read_B23 = from_pixels(self.pixels_read(draws_BN, source.lengths, H), H, W)
        grid_BHW2 = affine_grid(read_B23.to(source.values.dtype), list(picture_BCHW.shape), align_corners=False)
        # the right edge of each picture, which may be narrower than the batch
        right_B11 = ((2 * source.lengths - 1) / W - 1)[:, None, None].to(grid_BHW2.dtype)
        columns_BHW = torch.minimum(grid_BHW2[..., 0].clamp(min=1 / W - 1), right_B11)
        askew_BCHW = grid_sample(
            picture_BCHW,
            torch.stack([columns_BHW, grid_BHW2[..., 1]], -1),
            padding_mode="border",
            align_corners=False,
        )
        values_BSD = askew_BCHW.flatten(1, 2).transpose(1, 2)
        return Padded(values_BSD.masked_fill(~source.mask[..., None], 0.0), source.lengths)

    def pixels_read(self, draws_BN: Tensor, widths_B: Tensor, height: int) -> Tensor:
        """Matrices [B, 3, 3] that map a pixel's (column, row, 1) to the column and row whose value the pixel gets."""
        turn, lean, size, right, down = (2 * draws_BN - 1).unbind(1)
        turn = torch.deg2rad(turn * self.rotation)
        larger, slope = 1 / (1 + size * self.scale), math.tan(math.radians(self.shear)) * lean
        cos, sin, zero, one = turn.cos(), turn.sin(), torch.zeros_like(turn), torch.ones_like(turn)
        turned = matrix(cos, -sin, zero, sin, cos, zero)
        leant = matrix(larger, larger * slope, zero, zero, larger, zero)
        middle_B, middle = (widths_B - 1) / 2, torch.full_like(turn, (height - 1) / 2)
        back = matrix(one, zero, middle_B + right * self.shift * height, zero, one, middle + down * self.shift * height)
        return back @ turned @ leant @ matrix(one, zero, -middle_B, zero, one, -middle)


def matrix(*entries: Tensor) -> Tensor:
    """Matrices [B, 3, 3] from six entries [B], row by row; the last row is 0, 0, 1."""
    zero = torch.zeros_like(entries[0])
    return torch.stack([*(entry.to(zero) for entry in entries), zero, zero, zero + 1], 1).view(-1, 3, 3)


def from_pixels(read_B33: Tensor, height: int, width: int) -> Tensor:
    """Converts matrices [B, 3, 3] in pixels to matrices [B, 2, 3] for ``affine_grid``, where a picture spans -1 to 1
    along both axes.
    """
    pixels_33 = torch.tensor(
        [[width / 2, 0, (width - 1) / 2], [0, height / 2, (height - 1) / 2], [0, 0, 1]], dtype=read_B33.dtype
    )
    affine_B33: Tensor = torch.linalg.inv(pixels_33) @ read_B33 @ pixels_33
    return affine_B33[:, :2]
