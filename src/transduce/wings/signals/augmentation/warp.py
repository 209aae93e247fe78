"""Warped frequencies: other lengths of the vocal tract. B rows, S steps, D bands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from transduce.core.types import Padded
from transduce.training.augmentation import check_share, uniform

KNEE = 0.8  # share of the bands that the factor moves; above it, the bands are squeezed or spread to the last one


@dataclass(frozen=True)
class Warp:
    """Moves the bands of a sound up or down in training, as if the speaker had a shorter or a longer vocal tract
    (vocal tract length perturbation; Jaitly and Hinton 2013).

    Each recording has one random factor w from 1 - ``most`` to 1 + ``most``. Band m then has the value of band w m,
    interpolated linearly. From four fifths of the bands on (divided by w, if w is more than 1), a second line goes on
    to the last band, which stays the last one. Bands are evenly spaced in mel, and so is the warping. Training
    refuses it for other numbers than energies of bands: ``cepstra``, ``differences``, pixels.
    """

    most: float = 0.1
    for_bands: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_share("most", self.most, 0.5)

    def __call__(self, source: Padded, ids_B: Tensor, epoch: int, seed: int) -> Padded:
        return warped(source, 1 + self.most * (2 * uniform(ids_B, epoch, seed, 1)[:, 0] - 1))


def warped(source: Padded, factor_B: Tensor) -> Padded:
    """The signals with warped bands. ``factor_B`` is float64; a factor of 1 changes nothing."""
    S, D = source.values.shape[1:]
    read_BD = bands_read(factor_B, D)
    before_BD = read_BD.floor().long().clamp(max=max(0, D - 2))
    part_B1D = (read_BD - before_BD)[:, None].to(source.values.dtype)
    below_BSD, above_BSD = (
        source.values.gather(2, band_BD[:, None].expand(-1, S, -1))
        for band_BD in (before_BD, (before_BD + 1).clamp(max=D - 1))
    )
    return Padded(torch.lerp(below_BSD, above_BSD, part_B1D), source.lengths)


def bands_read(factor_B: Tensor, bands: int) -> Tensor:
    """The band, a real number, whose value each band gets: [B, bands]. Band m, counted from 1, ranges to bands + 1."""
    top, knee_B = bands + 1, KNEE * (bands + 1) * torch.clamp(1 / factor_B, max=1.0)
    band_D = torch.arange(1, top, dtype=factor_B.dtype)
    turn_B = factor_B * knee_B
    slope_B = (top - turn_B) / (top - knee_B)
    beyond_BD = turn_B[:, None] + slope_B[:, None] * (band_D - knee_B[:, None])
    read_BD = torch.where(band_D <= knee_B[:, None], factor_B[:, None] * band_D, beyond_BD)
    return (read_BD - 1).clamp(0, bands - 1)
