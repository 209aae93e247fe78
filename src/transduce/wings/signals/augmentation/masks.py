"""Masks over bands of time and of frequency. B rows, S frames, D frequencies, M masks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.core.errors import UserError
from transduce.core.types import Padded
from transduce.training.augmentation import check_share, uniform


@dataclass(frozen=True)
class SpecAugment:
    """Masks bands of time and of frequency of a spectrogram in training (Park et al. 2019, section 2).

    There are ``time_masks`` masks, each 0 to ``time`` frames wide and at most a ``share`` of the recording. There are
    ``frequency_masks`` masks, each 0 to ``frequency`` frequencies wide. Widths and positions are uniform, and masks may
    overlap. Masked values are 0, which is the mean of normalised energies. The paper's time warping is left to
    ``stretch``.
    """

    time_masks: int = 2
    time: int = 40
    share: float = 0.2
    frequency_masks: int = 2
    frequency: int = 8

    def __post_init__(self) -> None:
        for name in ("time_masks", "time", "frequency_masks", "frequency"):
            if getattr(self, name) < 0:
                raise UserError(f"{name} = {getattr(self, name)}: at least 0 was expected")
        check_share("share", self.share)

    def __call__(self, source: Padded, ids_B: Tensor, epoch: int, seed: int) -> Padded:
        draws_BN = uniform(ids_B, epoch, seed, 2 * (self.time_masks + self.frequency_masks))
        times_B2M, bands_B2M = (
            draws.view(len(draws), 2, draws.shape[1] // 2)
            for draws in torch.split(draws_BN, [2 * self.time_masks, 2 * self.frequency_masks], 1)
        )
        S, D = source.values.shape[1:]
        longest_B = (source.lengths * self.share).long().clamp(max=self.time)
        mask_BS = masked(times_B2M, longest_B, source.lengths, S)
        bands_B = torch.full_like(source.lengths, D)
        mask_BD = masked(bands_B2M, bands_B.clamp(max=self.frequency), bands_B, D)
        return Padded(source.values.masked_fill(mask_BS[:, :, None] | mask_BD[:, None], 0.0), source.lengths)


def masked(draws_B2M: Tensor, widest_B: Tensor, lengths_B: Tensor, size: int) -> Tensor:
    """A mask [B, size] that joins the M masks of each row. Each is 0 to ``widest_B`` wide and lies within
    ``lengths_B``.

    ``draws_B2M`` are random numbers in [0, 1): [:, 0] decides the widths, [:, 1] the positions.
    """
    width_BM = (draws_B2M[:, 0] * (widest_B + 1)[:, None]).long()
    begin_BM = (draws_B2M[:, 1] * (lengths_B[:, None] - width_BM + 1)).long()
    places_S11 = torch.arange(size)[:, None, None]
    under_SBM = (places_S11 >= begin_BM) & (places_S11 < begin_BM + width_BM)
    return under_SBM.any(2).T
