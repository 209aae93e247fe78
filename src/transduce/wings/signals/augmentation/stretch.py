"""Faster and slower signals. B rows, S steps before, T steps after, D numbers per step."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.core.types import Padded
from transduce.training.augmentation import check_share, uniform


@dataclass(frozen=True)
class Stretch:
    """Makes signals faster or slower in training. The length of each signal is multiplied by a random factor from
    1 - ``most`` to 1 + ``most``, and rounded to at least one step. Steps are interpolated linearly. A stretched
    spectrogram is faster or slower speech at the same pitch.

    Batches are formed from the original lengths, so a batch may grow by ``most``. CTC needs enough frames in the
    shortened signal, too: one for each symbol, and one more between equal neighbours.
    """

    most: float = 0.1

    def __post_init__(self) -> None:
        check_share("most", self.most, 0.9)

    def __call__(self, source: Padded, ids_B: Tensor, epoch: int, seed: int) -> Padded:
        factor_B = 1 + self.most * (2 * uniform(ids_B, epoch, seed, 1)[:, 0] - 1)
        lengths_B = (source.lengths * factor_B).round().long().clamp(min=1)
        numbers, last_B1 = source.values.shape[2], (source.lengths - 1)[:, None]
        # each new step reads the old signal at the position of its middle
        middles_T = torch.arange(int(lengths_B.max()), dtype=torch.float64) + 0.5
        read_BT = middles_T * (source.lengths / lengths_B)[:, None] - 0.5
        before_BT = read_BT.floor().long()
        part_BT1 = (read_BT - before_BT)[..., None].to(source.values.dtype)
        left_BTD, right_BTD = (
            source.values.gather(1, torch.minimum(place_BT.clamp(min=0), last_B1)[..., None].expand(-1, -1, numbers))
            for place_BT in (before_BT, before_BT + 1)
        )
        stretched = Padded(torch.lerp(left_BTD, right_BTD, part_BT1), lengths_B)
        return Padded(stretched.values.masked_fill(~stretched.mask[..., None], 0.0), lengths_B)
