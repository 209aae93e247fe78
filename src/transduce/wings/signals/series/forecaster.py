"""Forecasters: they predict the next steps of a series at once. B rows, S steps read, T steps written, C channels."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.protocols import Encoder, InstantDecoder, memory_widths
from transduce.core.types import Factory, Forecasts, Padded, real_mask, widened
from transduce.wings.signals.modules.numbers import grouped

Level = Literal["none", "last", "window"]
NARROWEST = 12.0  # largest absolute logarithm of a deviation, in units of the level's scale


class Forecaster(nn.Module):
    """y = f(x): an encoder reads the steps of a series, and an instant decoder writes the next steps.

    The decoder's readout gives one number per channel. ``level`` removes the level of each channel of a series before
    the model reads it, and adds it to the forecast. "last" uses the last step: y = x_S + f(x - x_S) (NLinear of Zeng et
    al. 2023). "window" uses the mean m of the steps read, and divides by their standard deviation s: y = m + s f((x -
    m) / s) (Kim et al. 2022, without their weights). 1e-5 is added to the variance. Both need as many output channels
    as input channels; otherwise UserError. ``predict`` raises UserError for more steps than the decoder's
    ``max_length``.
    """

    def __init__(
        self,
        encoder: Encoder,
        decoder: Factory[InstantDecoder[Any]],
        source_vocabulary: int,
        target_vocabulary: int,
        level: Level = "none",
    ) -> None:
        super().__init__()
        if level not in ("none", "last", "window"):
            raise UserError(f'level = "{level}": expected "none", "last" or "window"')
        if level != "none" and source_vocabulary != target_vocabulary:
            raise UserError(
                f'level = "{level}" is given back to the channels it was taken from, but {source_vocabulary} are read '
                f'and {target_vocabulary} written: set model.level = "none", or data.origin.targets to all columns'
            )
        self.encoder = encoder
        self.decoder = decoder(memory=memory_widths(encoder))
        self.steps, self.channels, self.level = self.decoder.max_length, target_vocabulary, level

    def predict(self, source: Padded, steps_B: Tensor) -> Tensor:
        features, level = self.decoded(source, steps_B)
        numbers_BTC: Tensor = self.decoder.readout(features)
        return numbers_BTC if level is None else level.given_to(numbers_BTC)

    def decoded(self, source: Padded, steps_B: Tensor) -> tuple[Any, _Levelled | None]:
        """The decoder's features [B, T, ...], and the level that was removed from the source: None if ``level`` is
        "none". Raises UserError for too many steps.
        """
        longest = int(steps_B.max())
        if longest > self.steps:
            raise UserError(
                f"{longest} steps wanted: this model writes at most model.decoder.max_length = {self.steps}; ask for "
                "fewer (search.steps), or train it for more"
            )
        level = _level(grouped(source, self.channels), self.level) if self.level != "none" else None
        state = self.decoder.start(self.encoder(source if level is None else level.taken_from(source)))
        return self.decoder(state, steps_B, max(1, longest)), level


class DensityForecaster(Forecaster):
    """A forecaster that gives a normal distribution of each number.

    Given the source, all numbers are independent. A linear layer on the decoder's features gives the natural logarithm
    of each number's standard deviation, cut to -12 to 12; untrained, it is 0. If there is a ``level``, deviations are
    multiplied by its scale. Train it with ``objective = "log-density"`` (Nix and Weigend 1994).
    """

    def __init__(
        self,
        encoder: Encoder,
        decoder: Factory[InstantDecoder[Any]],
        source_vocabulary: int,
        target_vocabulary: int,
        level: Level = "none",
    ) -> None:
        super().__init__(encoder, decoder, source_vocabulary, target_vocabulary, level)
        self.spread = nn.Linear(self.decoder.projection.weight.shape[1], target_vocabulary)
        nn.init.zeros_(self.spread.weight)
        nn.init.zeros_(self.spread.bias)

    def predict(self, source: Padded, steps_B: Tensor) -> Tensor:
        return self.distribution(source, steps_B).mean

    def distribution(self, source: Padded, steps_B: Tensor) -> Forecasts:
        features, level = self.decoded(source, steps_B)
        mean_BTC = self.decoder.readout(features)
        deviation_BTC = self.spread(features).clamp(-NARROWEST, NARROWEST).exp()
        if level is None:
            return Forecasts(mean_BTC, deviation_BTC)
        return Forecasts(level.given_to(mean_BTC), level.scale * deviation_BTC)

    def log_density(self, source: Padded, target: Padded) -> Tensor:
        found = self.distribution(source, (target.lengths - 1) // self.channels)
        size = target.values.shape[1] - 1
        mean_BN, deviation_BN = (
            nn.functional.pad(each.flatten(1).to(widened(each.dtype)), (0, size))[:, :size]
            for each in (found.mean, found.deviation)
        )
        values_BN = target.values[:, :size]
        known_BN = real_mask(target.lengths - 1, size) & ~values_BN.isnan()
        deviation_BN = deviation_BN.where(known_BN, 1.0)  # before the logarithm: 0 would make the gradient NaN
        unit_BN = (values_BN.where(known_BN, 0.0) - mean_BN.where(known_BN, 0.0)) / deviation_BN
        log_density_BN = -0.5 * unit_BN.square() - deviation_BN.log() - 0.5 * math.log(2 * math.pi)
        return log_density_BN.where(known_BN, 0.0)


@dataclass(frozen=True)
class _Levelled:
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


def _level(x: Padded, kind: Level) -> _Levelled:
    if kind == "last":
        last_B1C = x.values[torch.arange(len(x.lengths), device=x.lengths.device), x.lengths - 1][:, None]
        return _Levelled(last_B1C, torch.ones_like(last_B1C))
    real_BSC = x.values * x.mask[..., None]
    count_B11 = x.lengths[:, None, None]
    mean_B1C = real_BSC.sum(1, keepdim=True) / count_B11
    apart_BSC = (x.values - mean_B1C) * x.mask[..., None]
    variance_B1C = apart_BSC.square().sum(1, keepdim=True) / count_B11
    return _Levelled(mean_B1C, (variance_B1C + 1e-5).sqrt())  # a constant series has deviation 0
