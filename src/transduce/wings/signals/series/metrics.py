"""Metrics of forecasts: "1.5 2 2.5" in raw units, with spaces between steps and commas between channels.

A missing number of a reference or of a source, "nan", is left out of each metric. The score of no numbers is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from transduce.core.errors import UserError
from transduce.core.types import Example, Prediction
from transduce.metrics.statistics import references

Steps = list[list[float]]


class NumericError:
    """Base class: the mean of ``error`` over the differences, prediction minus reference, of all steps and channels of
    the corpus.

    If an example has several references, the differences from each count. Missing numbers do not count. Raises
    UserError unless outputs have as many steps and channels as their references.
    """

    name: str
    what: str
    higher_is_better = False
    needs_forcing = False

    @property
    def signature(self) -> str:
        return f"error:{self.what}|unit:number|refs:each"

    def error(self, difference: float) -> float:
        raise NotImplementedError

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        apart = [d for reference in references(example) for d in differences(prediction.text, reference)]
        known = [d for step in apart for d in step if not math.isnan(d)]
        return sum(map(self.error, known)), float(len(known))

    def score(self, total: Sequence[float]) -> float:
        return _per_number(total)


class MeanAbsoluteError(NumericError):
    """``mae``: the mean absolute difference, in the units of the series."""

    name = "mae"
    what = "absolute"

    def error(self, difference: float) -> float:
        return abs(difference)


class RootMeanSquaredError(NumericError):
    """``rmse``: the root of the mean squared difference, in the units of the series."""

    name = "rmse"
    what = "squared"

    def error(self, difference: float) -> float:
        return difference * difference  # gives infinity; a power would raise OverflowError

    def score(self, total: Sequence[float]) -> float:
        return math.sqrt(super().score(total))


class MeanAbsoluteScaledError:
    """``mase``: the absolute error divided by the absolute error of a naive forecast, averaged over channels (Hyndman
    and Koehler 2006).

    The naive forecast repeats the last step, and its error is measured one step ahead on the sources. A score below 1
    is a smaller error than the naive one. Both errors of a channel are averaged over the corpus before the division, so
    a source that never changes does no harm. If a channel never changes in any source, its quotient is infinite, or 0
    without an error. A subclass with another ``period`` repeats the last season instead: the step ``period`` steps
    earlier.
    """

    name = "mase"
    period = 1
    higher_is_better = False
    needs_forcing = False

    @property
    def signature(self) -> str:
        return f"error:absolute|scale:naive {self.period} of sources|ratio:of means|channels:mean|refs:each"

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        """Each channel's sum of absolute errors, then each channel's number of errors; then the same of the naive
        forecast on the source.

        Raises UserError if the source has no more steps than the period, or another number of channels than the
        forecast.
        """
        apart = [step for reference in references(example) for step in differences(prediction.text, reference)]
        source = numbers(example.source, missing=True)
        if len(source) <= self.period or len(source[0]) != len(apart[0]):
            raise UserError(
                f"{self.name} needs sources of more than {self.period} steps and of the channels that are forecast, "
                f"and {example.source[:60]!r} has {len(source)} steps of {len(source[0])}; {len(apart[0])} are forecast"
                ": choose mae or rmse, or another period"
            )
        naive = [subtract(step, before) for before, step in zip(source, source[self.period :], strict=False)]
        return *_channels(apart), *_channels(naive)

    def score(self, total: Sequence[float]) -> float:
        half = len(total) // 2
        errors, scales = _means(total[:half]), _means(total[half:])
        return sum(map(_ratio, errors, scales)) / len(errors)


def _ratio(error: float, scale: float) -> float:
    if scale:
        return error / scale
    return math.nan if math.isnan(error) else math.inf if error else 0.0


class QuarterlyScaledError(MeanAbsoluteScaledError):
    """``mase-4``: ``mase`` with a season of 4 steps, for quarters."""

    name, period = "mase-4", 4


class WeeklyScaledError(MeanAbsoluteScaledError):
    """``mase-7``: ``mase`` with a season of 7 steps, for days."""

    name, period = "mase-7", 7


class YearlyScaledError(MeanAbsoluteScaledError):
    """``mase-12``: ``mase`` with a season of 12 steps, for months."""

    name, period = "mase-12", 12


class DailyScaledError(MeanAbsoluteScaledError):
    """``mase-24``: ``mase`` with a season of 24 steps, for hours."""

    name, period = "mase-24", 24


class LogScore:
    """``log_score``: the mean negative log-density of the first reference's numbers (natural logarithm).

    It depends on the units of the series, so compare only models of the same series. Numbers that are missing do not
    count. Raises UserError if a prediction has no log-density of the reference.
    """

    name = "log_score"
    higher_is_better = False
    needs_forcing = True

    @property
    def signature(self) -> str:
        return "density:raw units|log:natural|unit:number|refs:first"

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        if prediction.forced_log_prob is None:
            raise UserError(
                f"{self.name} needs the log-density of the reference, and the prediction for {example.source[:60]!r} "
                "has none: make predictions with Transducer.evaluate, or set forced_log_prob"
            )
        known = [y for step in numbers(references(example)[0], missing=True) for y in step if not math.isnan(y)]
        return -prediction.forced_log_prob, float(len(known))

    def score(self, total: Sequence[float]) -> float:
        return _per_number(total)


class DensityMetric:
    """Base class: the mean of ``measure`` over all numbers of the references, given a normal distribution of each
    number.

    If an example has several references, each counts. Missing numbers do not count. Raises UserError for a prediction
    without deviations, and unless outputs have as many steps and channels as their references.
    """

    name: str
    higher_is_better = False
    needs_forcing = False

    @property
    def signature(self) -> str:
        return "density:normal|unit:number|refs:each"

    def measure(self, difference: float, deviation: float) -> float:
        """The value of one number. ``difference`` is the mean minus the reference."""
        raise NotImplementedError

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        if not prediction.deviations:
            raise UserError(
                f"{self.name} needs the distribution of each number, and this model gives none: train one that does, "
                'such as model.type = "kalman" or "density-forecaster", or choose mae or rmse'
            )
        total, count = 0.0, 0
        for reference in references(example):
            apart = [d for step in differences(prediction.text, reference) for d in step]
            each = [self.measure(d, s) for d, s in zip(apart, prediction.deviations, strict=True) if not math.isnan(d)]
            total, count = total + sum(each), count + len(each)
        return total, float(count)

    def score(self, total: Sequence[float]) -> float:
        return _per_number(total)


class RankedProbabilityScore(DensityMetric):
    """``crps``: the continuous ranked probability score, in the units of the series (Gneiting and Raftery
    2007).

    For one number, it is the integral of the squared difference between the forecast's distribution function and the
    reference's step function. For a forecast without spread, it is the absolute error.
    """

    name = "crps"

    def measure(self, difference: float, deviation: float) -> float:
        if not deviation:
            return abs(difference)
        z = difference / deviation
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        return deviation * (z * math.erf(z / math.sqrt(2)) + 2 * density - 1 / math.sqrt(math.pi))


class Coverage(DensityMetric):
    """``coverage``: the share of references inside the central 90 % intervals of the forecast, in percent.

    It should be near 90. More is too cautious, less is too sure, so compare models by ``crps`` or ``log_score``. A
    subclass has another ``level``.
    """

    name, level = "coverage", 0.9
    higher_is_better = True

    @property
    def signature(self) -> str:
        return f"interval:central {100 * self.level:g} %|{super().signature}"

    def measure(self, difference: float, deviation: float) -> float:
        return 100.0 * (abs(difference) <= NormalDist().inv_cdf((1 + self.level) / 2) * deviation)


class HalfCoverage(Coverage):
    """``coverage-50``: ``coverage`` of the central 50 % intervals. It should be near 50."""

    name, level = "coverage-50", 0.5


def _per_number(total: Sequence[float]) -> float:
    """The mean of some numbers, from their sum and their count; NaN without any number."""
    value, count = total
    return value / count if count else math.nan


def _channels(steps: Steps) -> list[float]:
    """For each channel, the sum of absolute values over all steps; then for each channel, how many numbers were summed.
    Missing numbers (NaN) are left out of both.
    """
    channels = [[abs(number) for number in channel if not math.isnan(number)] for channel in zip(*steps, strict=True)]
    return [*map(sum, channels), *(float(len(channel)) for channel in channels)]


def _means(total: Sequence[float]) -> list[float]:
    """The mean of each channel, from sums of ``_channels``; NaN for a channel without numbers."""
    half = len(total) // 2
    return [_per_number(both) for both in zip(total[:half], total[half:], strict=True)]


def differences(predicted: str, reference: str) -> Steps:
    """Prediction minus reference, by step and channel; NaN where the reference's number is missing. Raises UserError if
    the numbers of steps or channels differ.
    """
    ours, theirs = numbers(predicted), numbers(reference, missing=True)
    if [len(step) for step in ours] != [len(step) for step in theirs]:
        raise UserError(
            f"a forecast of {len(ours)} steps of {len(ours[0])} cannot be compared with {reference[:60]!r}, which has "
            f"{len(theirs)} of {len(theirs[0])}: ask for as many as there are (search.steps)"
        )
    return [subtract(a, b) for a, b in zip(ours, theirs, strict=True)]


def subtract(step: Sequence[float], other: Sequence[float]) -> list[float]:
    return [a - b for a, b in zip(step, other, strict=True)]


def numbers(text: str, missing: bool = False) -> Steps:
    """The steps of a line, at least one; each is a list of its channels' values.

    If ``missing`` is True, "nan" is a missing number. Raises UserError if the line is empty, or if another value is not
    a finite number.
    """
    try:
        steps = [[float(number) for number in step.split(",")] for step in text.split()]
    except ValueError:
        steps = []
    if not steps or not all(math.isfinite(y) or (missing and math.isnan(y)) for step in steps for y in step):
        raise UserError(
            f"{text[:60]!r} is no series of numbers, steps separated by spaces: metrics of numbers measure these alone"
        )
    return steps
