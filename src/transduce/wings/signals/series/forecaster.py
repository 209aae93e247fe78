"""Forecasters: they predict the next steps of a series at once. B rows, S steps read, T steps written, C channels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from transduce.core.errors import UserError
from transduce.core.protocols import Encoder, InstantDecoder, Model, Regressor, S, can, memory_widths
from transduce.core.registry import model_name
from transduce.core.types import Factory, Forecasts, Padded, real_mask, widened
from transduce.training.counted import Counted
from transduce.wings.signals.series.levels import Level, Levelled, check_level, level_of

NARROWEST = 12.0  # largest absolute logarithm of a deviation, in units of the level's scale


class Forecaster(nn.Module):
    """y = f(x): an encoder reads the steps of a series, and an instant decoder writes the next steps.

    The decoder's readout gives one number per channel. ``level`` removes the level of each channel of a series before
    the model reads it, and adds it to the forecast. "last" uses the last step: y = x_S + f(x - x_S) (NLinear of Zeng et
    al. 2023). "window" uses the mean m of the steps read, and divides by their standard deviation s: y = m + s f((x -
    m) / s) (Kim et al. 2022, without their weights). 1e-5 is added to the variance. Both need as many output channels
    as input channels; otherwise UserError. ``predict`` raises UserError for more steps than the decoder's
    ``max_length``.

    The network f can learn beside a ``counted`` model c, such as "linear": y = c(x) + f(x). Only the x of f loses its
    level, and f is multiplied by s for the level "window". c is counted before the first update, and f is 0 then. So
    the network starts from the forecast of c, and learns what c leaves. Raises UserError unless c is a counted model
    that writes numbers, as many steps as the decoder.
    """

    def __init__(
        self,
        encoder: Encoder,
        decoder: Factory[InstantDecoder[S]],
        source_vocabulary: int,
        target_vocabulary: int,
        level: Level = "none",
        counted: Model | None = None,
    ) -> None:
        super().__init__()
        check_level(level, source_vocabulary, target_vocabulary)
        self.encoder = encoder
        self.decoder = decoder(memory=memory_widths(encoder))
        self.steps, self.channels, self.level = self.decoder.max_length, target_vocabulary, level
        self.counted: Any = counted
        if counted is not None:
            check_beside(counted, self.steps)
            projection: Any = self.decoder.projection
            for parameter in projection.parameters():
                nn.init.zeros_(parameter)

    def counted_parts(self) -> Sequence[Counted]:
        return () if self.counted is None else (self.counted,)

    def predict(self, source: Padded, steps_B: Tensor) -> Tensor:
        features, level = self.decoded(source, steps_B)
        return self.forecast(source, steps_B, self.decoder.readout(features), level)

    def forecast(self, source: Padded, steps_B: Tensor, numbers_BTC: Tensor, level: Levelled | None) -> Tensor:
        """The forecast [B, T, C], from the network's own numbers."""
        if self.counted is not None:
            own_BTC = numbers_BTC if level is None else level.scale * numbers_BTC
            beside_BTC: Tensor = self.counted.predict(source, steps_B)
            return beside_BTC.to(own_BTC.dtype) + own_BTC
        return numbers_BTC if level is None else level.given_to(numbers_BTC)

    def decoded(self, source: Padded, steps_B: Tensor) -> tuple[object, Levelled | None]:
        """The decoder's features [B, T, ...], and the level that was removed from the source: None if ``level`` is
        "none". Raises UserError for too many steps.
        """
        longest = int(steps_B.max())
        if longest > self.steps:
            raise UserError(
                f"{longest} steps wanted: this model writes at most model.decoder.max_length = {self.steps}; ask for "
                "fewer (search.steps), or train it for more"
            )
        level = level_of(source, self.channels, self.level)
        state = self.decoder.start(self.encoder(source if level is None else level.taken_from(source)))
        return self.decoder(state, steps_B, max(1, longest)), level


def check_beside(counted: Any, steps: int) -> None:
    """Raises UserError unless a network that writes ``steps`` steps can learn beside this model."""
    if not (can(type(counted), Counted) and can(type(counted), Regressor)):
        raise UserError(
            f'counted = "{model_name(type(counted))}": a counted model that writes numbers was expected, "linear" or '
            '"kalman"'
        )
    if counted.steps < steps:
        raise UserError(
            f"counted.steps = {counted.steps}: at least decoder.max_length = {steps} was expected, the steps that the "
            "network writes"
        )


class DensityForecaster(Forecaster):
    """A forecaster that gives a normal distribution of each number.

    Given the source, all numbers are independent. A linear layer on the decoder's features gives the natural logarithm
    of each number's standard deviation, cut to -12 to 12; untrained, it is 0. If there is a ``level``, deviations are
    multiplied by its scale. Train it with ``objective = "log-density"`` (Nix and Weigend 1994).
    """

    def __init__(
        self,
        encoder: Encoder,
        decoder: Factory[InstantDecoder[S]],
        source_vocabulary: int,
        target_vocabulary: int,
        level: Level = "none",
        counted: Model | None = None,
    ) -> None:
        super().__init__(encoder, decoder, source_vocabulary, target_vocabulary, level, counted)
        self.spread = nn.Linear(self.decoder.projection.weight.shape[1], target_vocabulary)
        nn.init.zeros_(self.spread.weight)
        nn.init.zeros_(self.spread.bias)

    def predict(self, source: Padded, steps_B: Tensor) -> Tensor:
        return self.distribution(source, steps_B).mean

    def distribution(self, source: Padded, steps_B: Tensor) -> Forecasts:
        features, level = self.decoded(source, steps_B)
        mean_BTC = self.forecast(source, steps_B, self.decoder.readout(features), level)
        deviation_BTC = self.spread(features).clamp(-NARROWEST, NARROWEST).exp()
        return Forecasts(mean_BTC, deviation_BTC if level is None else level.scale * deviation_BTC)

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
