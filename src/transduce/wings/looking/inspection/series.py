"""A series and its forecast with intervals, as text and as a picture. A state-space model also shows its components.

S steps of the source, T steps of the forecast, C channels. All numbers are in the units of the series.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from transduce.answers.request import Request
from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.core.finite import readable
from transduce.core.protocols import Density, can
from transduce.core.registry import model_name
from transduce.core.types import EOS, Forecasts, Hypothesis, Padded
from transduce.data.tokenizers.base import Scaled
from transduce.wings.pages.palette import FAINT, HUES, INK, RULE
from transduce.wings.pages.plots import figure, save
from transduce.wings.signals.tokenizers.numbers import steps

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]
LEVELS = (0.5, 0.9)  # probabilities of the bands in a picture


class Smoothing(Density, Protocol):
    """A density that explains a series by hidden components whose sum, plus noise, is the series.

    ``component_names`` names them. ``smoothed`` returns each component and their sum at each step of the source, given
    all its numbers: normal distributions [B, S, channels].
    """

    component_names: Sequence[str]

    def smoothed(self, source: Padded) -> tuple[list[Forecasts], Forecasts]: ...


@dataclass(frozen=True)
class Band:
    """A curve with its uncertainty: the ``mean`` and the standard ``deviation`` of a normal distribution for each
    number. Both are [S, C] or [T, C].
    """

    name: str
    mean: Array
    deviation: Array

    def ends(self, level: float) -> tuple[Array, Array]:
        """The lower and the upper ends of the central intervals that hold each number with probability ``level``."""
        reach = NormalDist().inv_cdf((1 + level) / 2) * self.deviation
        return self.mean - reach, self.mean + reach


@dataclass(frozen=True)
class SeriesReading:
    """A series and its forecast: the numbers ``given`` [S, C], with NaN for missing ones, and the band ``forecast``
    [T, C].

    A state-space model also has ``smoothed`` [S, C], the band of the series without noise, and a band for each of its
    ``components``. For other models, ``smoothed`` is None, and there are no components.
    """

    given: Array
    forecast: Band
    smoothed: Band | None = None
    components: tuple[Band, ...] = ()

    def lines(self) -> list[str]:
        """Two tables for the terminal, as lines of text, with an empty line between them.

        The first has a row for each step and channel: the number that was given, and each curve with its deviation. The
        curves show ``smoothed`` and ``components``. The second has a row for each number of the forecast, with its 90 %
        interval.
        """
        curves = [*([self.smoothed] if self.smoothed else []), *self.components]
        head = ["step", "channel", "given", *(curve.name for curve in curves)]
        rows = [
            [str(s + 1), str(c + 1), _number(self.given[s, c])]
            + [f"{_number(curve.mean[s, c])} ± {readable(float(curve.deviation[s, c]), 3)}" for curve in curves]
            for s, c in np.ndindex(*self.given.shape)
        ]
        low, high = self.forecast.ends(0.9)
        ahead = [
            [
                f"+{t + 1}",
                str(c + 1),
                _number(self.forecast.mean[t, c]),
                f"{_number(low[t, c])} to {_number(high[t, c])}",
            ]
            for t, c in np.ndindex(*low.shape)
        ]
        return [*_table([head, *rows]), "", *_table([["step", "channel", "forecast", "90 % interval"], *ahead])]

    def plot(self, path: Path) -> None:
        """Draws a picture and writes it to ``path``. Each channel has one column of panels: the series and its forecast
        above, each component below.

        Dark bands hold half of the probability, light ones 90 %. Raises UserError for an unknown suffix, and
        MissingPackageError without matplotlib.
        """
        channels, panels = self.given.shape[1], 1 + len(self.components)
        sheet = figure(7.5 * channels, 3.2 + 1.6 * len(self.components))
        heights = [2.0, *[1.0] * len(self.components)]
        every = sheet.subplots(panels, channels, squeeze=False, sharex=True, height_ratios=heights)
        for channel in range(channels):
            self._draw_series(every[0, channel], channel)
            for axes, band, hue in zip(every[1:, channel], self.components, HUES[2:], strict=False):
                _draw_band(axes, range(1 - len(self.given), 1), band, channel, hue)
                axes.set_title(band.name, loc="left", fontsize=10, color=INK)
            every[-1, channel].set_xlabel("steps; 1 and later are forecast", color=FAINT)
        for axes in every.flat:
            axes.grid(axis="y", color=RULE, linewidth=0.8)
            axes.set_axisbelow(True)
            axes.spines[:].set_visible(False)
            axes.tick_params(length=0, labelsize=9, labelcolor=INK)
        save(sheet, path)

    def _draw_series(self, axes: Axes, channel: int) -> None:
        past = range(1 - len(self.given), 1)
        if self.smoothed is not None:
            _draw_band(axes, past, self.smoothed, channel, HUES[0], "without noise")
        axes.plot(past, self.given[:, channel], "o", color=INK, markersize=2.6, label="given")
        _draw_band(axes, range(1, len(self.forecast.mean) + 1), self.forecast, channel, HUES[1], "forecast")
        axes.axvline(0.5, color=FAINT, linewidth=0.8, linestyle=":")
        title = "the series and its forecast, with intervals of 50 and 90 %"
        axes.set_title(title, loc="left", fontsize=11, color=INK)
        axes.legend(frameon=False, fontsize=9, labelcolor=INK, loc="upper left", ncols=3)


def read_series(transducer: Transducer, source: str) -> SeriesReading:
    """The series of the line ``source``, its forecast by the run's search, and its components if the model has some.

    Raises UserError if the model gives no density of numbers, or if the line is no series.
    """
    model = transducer.model
    tokenizer = transducer.target_tokenizer
    if not can(type(model), Density) or not isinstance(tokenizer, Scaled):
        raise UserError(
            f"this {model_name(type(model))} model gives no density of numbers, so there are no intervals to show: "
            "train a "
            'model that does, such as model.type = "kalman" or "density-forecaster"'
        )
    (answer,) = transducer.answer([Request(source)])
    channels = tokenizer.factors
    deviation = np.array(answer.best.deviations).reshape(-1, channels)
    forecast = Band("forecast", steps(answer.best.text, channels), deviation)
    given = steps(source, channels, missing=True)
    if not can(type(model), Smoothing):
        return SeriesReading(given, forecast)
    smoothing = cast(Smoothing, model)
    parts, whole = smoothing.smoothed(transducer.padded([transducer.read_one(source)]))
    smoothed = _in_units(tokenizer, "without noise", whole, around_mean=True)
    named = zip(smoothing.component_names, parts, strict=True)
    components = tuple(
        _in_units(tokenizer, name, part, around_mean=number == 0) for number, (name, part) in enumerate(named)
    )
    return SeriesReading(given, forecast, smoothed, components)


def _in_units(tokenizer: Any, name: str, scaled: Forecasts, around_mean: bool) -> Band:
    """The first row of ``scaled`` as a band in the units of the series. The training set's mean is added only if
    ``around_mean`` is True.
    """
    shape = scaled.mean.shape[1:]
    mean, deviation = (each[0].double().flatten().tolist() for each in (scaled.mean, scaled.deviation))
    if around_mean:
        mean_SC = steps(tokenizer.decode([*mean, float(EOS)]), tokenizer.factors)
    else:
        mean_SC = np.array(tokenizer.in_units(_spread(mean)).deviations).reshape(shape)
    return Band(name, mean_SC, np.array(tokenizer.in_units(_spread(deviation)).deviations).reshape(shape))


def _spread(numbers: list[float]) -> Hypothesis:
    """A hypothesis with these numbers as deviations, which ``in_units`` multiplies by the scale without adding the
    mean.
    """
    return Hypothesis((*numbers, float(EOS)), 0.0, 0.0, deviations=tuple(numbers))


def _draw_band(axes: Axes, xs: range, band: Band, channel: int, hue: str, label: str | None = None) -> None:
    for level in LEVELS:
        low, high = (end[:, channel] for end in band.ends(level))
        axes.fill_between(xs, low, high, color=hue, alpha=0.18, linewidth=0)
    axes.plot(xs, band.mean[:, channel], color=hue, linewidth=1.4, label=label)


def _number(value: Any) -> str:
    return "missing" if math.isnan(value) else f"{value:.6g}"


def _table(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows]
