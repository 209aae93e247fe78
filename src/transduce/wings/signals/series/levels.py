"""The level of a series: taken away before a model reads it, and given back to the forecast.

B rows, S steps read, T steps written, C channels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from transduce.core.errors import UserError
from transduce.core.types import Padded
from transduce.wings.signals.modules.numbers import grouped

Level = Literal["none", "last", "window"]


@dataclass(frozen=True)
class Levelled:
    """The mean and the scale that are removed from a series, [B, 1, C] each: numbers become (x - ``mean``) / ``scale``.
    For the level "last", the mean is the last step and the scale 1.
    """

    mean: Tensor
    scale: Tensor

    def taken_from(self, source: Padded) -> Padded:
        """The source with numbers (x - mean) / scale. Its rows keep their form, [B, S * C + 1]."""
        channels = self.mean.shape[-1]
        x_BSC = grouped(source, channels).values
        levelled_BN = ((x_BSC - self.mean) / self.scale).flatten(1)
        return replace(source, values=torch.cat([levelled_BN, source.values[:, levelled_BN.shape[1] :]], 1))

    def given_to(self, numbers_BTC: Tensor) -> Tensor:
        return self.mean + self.scale * numbers_BTC

    def without(self, numbers_BTC: Tensor) -> Tensor:
        return (numbers_BTC - self.mean) / self.scale


def check_level(level: str, source_channels: int, target_channels: int, key: str = "level") -> None:
    """Raises UserError for an unknown level, and for one that other channels would get. ``key`` names the setting."""
    if level not in ("none", "last", "window"):
        raise UserError(f'{key} = "{level}": expected "none", "last" or "window"')
    if level != "none" and source_channels != target_channels:
        raise UserError(
            f'{key} = "{level}" is given back to the channels it was taken from, but {source_channels} are read and '
            f'{target_channels} written: set model.{key} to "none", or data.origin.targets to all columns'
        )


def level_of(source: Padded, channels: int, kind: Level) -> Levelled | None:
    """The level of each source; None if ``kind`` is "none"."""
    return None if kind == "none" else _level(grouped(source, channels), kind)


def _level(x: Padded, kind: Level) -> Levelled:
    if kind == "last":
        last_B1C = x.values[torch.arange(len(x.lengths), device=x.lengths.device), x.lengths - 1][:, None]
        return Levelled(last_B1C, torch.ones_like(last_B1C))
    real_BSC = x.values * x.mask[..., None]
    count_B11 = x.lengths[:, None, None]
    mean_B1C = real_BSC.sum(1, keepdim=True) / count_B11
    apart_BSC = (x.values - mean_B1C) * x.mask[..., None]
    variance_B1C = apart_BSC.square().sum(1, keepdim=True) / count_B11
    return Levelled(mean_B1C, (variance_B1C + 1e-5).sqrt())  # a constant series has deviation 0
