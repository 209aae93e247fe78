"""Metrics of forecasts: "1.5 2 2.5" in raw units, with spaces between steps and commas between channels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from transduce.errors import UserError
from transduce.metrics.statistics import references
from transduce.types import Example, Prediction

Steps = list[list[float]]


class NumericError:
    """The mean of ``error`` over the differences, prediction minus reference, of all steps and channels of the corpus.

    If an example has several references, the differences from each count. Raises UserError unless outputs have as many
    steps and channels as their references.
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
        return sum(self.error(d) for step in apart for d in step), float(sum(map(len, apart)))

    def score(self, total: Sequence[float]) -> float:
        error, count = total
        return error / count


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
    is a smaller error than the naive one. Both errors are averaged over the corpus before the division, so a source
    that never changes does no harm. If no source changes, the score is infinite, or 0 without an error. A subclass with
    a ``period`` repeats the last season instead.
    """

    name = "mase"
    period = 1
    higher_is_better = False
    needs_forcing = False

    @property
    def signature(self) -> str:
        return f"error:absolute|scale:naive {self.period} of sources|ratio:of means|channels:mean|refs:each"

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        """Each channel's sum of absolute errors and their number of steps, then the same of the naive forecast on the
        source.

        Raises UserError if the source has no more steps than the period, or other channels than the forecast.
        """
        apart = [step for reference in references(example) for step in differences(prediction.text, reference)]
        source = numbers(example.source)
        if len(source) <= self.period or len(source[0]) != len(apart[0]):
            raise UserError(
                f"{self.name} needs sources of more than {self.period} steps and of the channels that are forecast, "
                f"and {example.source[:60]!r} has {len(source)} steps of {len(source[0])}; {len(apart[0])} are forecast"
                ": choose mae or rmse, or another period"
            )
        naive = [subtract(step, before) for before, step in zip(source, source[self.period :], strict=False)]
        return *_channels(apart), float(len(apart)), *_channels(naive), float(len(naive))

    def score(self, total: Sequence[float]) -> float:
        half = len(total) // 2
        *errors, steps = total[:half]
        *scales, naive_steps = total[half:]
        return sum(map(_ratio, (e / steps for e in errors), (s / naive_steps for s in scales))) / len(errors)


def _ratio(error: float, scale: float) -> float:
    if scale:
        return error / scale
    return math.inf if error else 0.0


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


def _channels(steps: Steps) -> list[float]:
    """For each channel, the sum of absolute values over all steps."""
    return [sum(map(abs, channel)) for channel in zip(*steps, strict=True)]


def differences(predicted: str, reference: str) -> Steps:
    """Prediction minus reference, by step and channel. Raises UserError if the numbers of steps or channels differ."""
    ours, theirs = numbers(predicted), numbers(reference)
    if [len(step) for step in ours] != [len(step) for step in theirs]:
        raise UserError(
            f"a forecast of {len(ours)} steps of {len(ours[0])} cannot be compared with {reference[:60]!r}, which has "
            f"{len(theirs)} of {len(theirs[0])}: ask for as many as there are (search.steps)"
        )
    return [subtract(a, b) for a, b in zip(ours, theirs, strict=True)]


def subtract(step: Sequence[float], other: Sequence[float]) -> list[float]:
    return [a - b for a, b in zip(step, other, strict=True)]


def numbers(text: str) -> Steps:
    """The steps of a line, at least one; each is a list of its channels' values.

    Raises UserError if the line is empty or a value is not a finite number.
    """
    try:
        steps = [[float(number) for number in step.split(",")] for step in text.split()]
    except ValueError:
        steps = []
    if not steps or not all(math.isfinite(number) for step in steps for number in step):
        raise UserError(
            f"{text[:60]!r} is no series of numbers, steps separated by spaces: metrics of numbers measure these alone"
        )
    return steps
