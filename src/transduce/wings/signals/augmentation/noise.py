"""Noise on every number of a signal. B rows, S steps, D numbers per step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from transduce.core.errors import UserError
from transduce.core.types import Padded
from transduce.training.augmentation import generators


@dataclass(frozen=True)
class Noise:
    """Adds noise to signals in training. Every number of every real step gets a normal random number with mean 0 and
    standard deviation ``deviation``.
    """

    deviation: float = 0.1

    def __post_init__(self) -> None:
        if not self.deviation >= 0:
            raise UserError(f"deviation = {self.deviation}: at least 0 was expected")

    def __call__(self, source: Padded, ids_B: Tensor, epoch: int, seed: int) -> Padded:
        noisy_BSD = source.values.clone()
        numbers = noisy_BSD.shape[2]
        for row_SD, length, random in zip(
            noisy_BSD, source.lengths.tolist(), generators(ids_B, epoch, seed), strict=True
        ):
            drawn = random.standard_normal((length, numbers), np.float32)
            row_SD[:length] += self.deviation * torch.from_numpy(drawn)
        return Padded(noisy_BSD, source.lengths)
