"""Pictures a little askew. B pictures, C channels, H rows, W columns, each picture with columns of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from transduce.errors import UserError
from transduce.training.augmentation.base import check_share, uniform
from transduce.types import Padded


@dataclass(frozen=True)
class Affine:
    """Each picture is turned by up to ``rotation`` degrees either way about its middle, leant over by up to ``shear``
    degrees, made larger or smaller by up to ``scale``, and moved in both directions by up to ``shift`` of its height,
    all drawn uniformly (Simard et al. 2003).

    Pixels between pixels are interpolated linearly; what comes in from outside is the nearest of the picture's edge.
    Its size stays. ``channels`` are 1 (grey) or 3 (colour).
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
        """By these draws, from 0 to 1, of rotation, shear, scale and both shifts; 0.5 is as it was."""
        picture_BCHW = torch.unflatten(source.values.transpose(1, 2), 1, (self.channels, -1))
        H, W = picture_BCHW.shape[2:]
        read_B23 = from_pixels(self.pixels_read(draws_BN, source.lengths, H), H, W)
        grid_BHW2 = affine_grid(read_B23.to(source.values.dtype), list(picture_BCHW.shape), align_corners=False)
        # The own edge of each picture, and not that of the widest.
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
        """[B, 3, 3]: from the column and row of each pixel to those that it shows."""
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
    """[B, 3, 3] of six entries [B], row by row, and 0, 0, 1."""
    zero = torch.zeros_like(entries[0])
    return torch.stack([*(entry.to(zero) for entry in entries), zero, zero, zero + 1], 1).view(-1, 3, 3)


def from_pixels(read_B33: Tensor, height: int, width: int) -> Tensor:
    """[B, 2, 3] as ``affine_grid`` has it, where the picture reaches from -1 to 1 either way."""
    pixels_33 = torch.tensor(
        [[width / 2, 0, (width - 1) / 2], [0, height / 2, (height - 1) / 2], [0, 0, 1]], dtype=read_B33.dtype
    )
    affine_B33: Tensor = torch.linalg.inv(pixels_33) @ read_B33 @ pixels_33
    return affine_B33[:, :2]
