"""Errors of forecasts: against NumPy, by their definitions, and inputs that are refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from transduce.core.types import Example, Prediction
from transduce.metrics.base import evaluate, metric

RANDOM = np.random.default_rng(1)


def text(steps: np.ndarray) -> str:
    return " ".join(",".join(map(repr, map(float, step))) for step in steps)


def corpus(channels: int, period: int = 1) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Sources, forecasts and true series of different lengths."""
    sizes = [(9 + period, 3), (8 + period, 5), (12 + period, 1)]
    scale = 10.0 ** np.arange(channels)
    draw = [[RANDOM.normal(size=(length, channels)) * scale for length in size] for size in sizes]
    truth = [RANDOM.normal(size=(out, channels)) * scale for _, out in sizes]
    return [source for source, _ in draw], [forecast for _, forecast in draw], truth


def measured(name: str, sources: list[np.ndarray], forecasts: list[np.ndarray], truth: list[np.ndarray]) -> float:
    predictions = [Prediction(text(forecast)) for forecast in forecasts]
    examples = [Example(text(source), (text(true),)) for source, true in zip(sources, truth, strict=True)]
    return evaluate([metric(name)], predictions, examples)[name]


@pytest.mark.parametrize("channels", [1, 3])
def test_errors_are_means_over_all_numbers(channels):
    sources, forecasts, truth = corpus(channels)
    apart = np.concatenate([(a - b).ravel() for a, b in zip(forecasts, truth, strict=True)])
    assert measured("mae", sources, forecasts, truth) == pytest.approx(np.abs(apart).mean())
    assert measured("rmse", sources, forecasts, truth) == pytest.approx(np.sqrt((apart**2).mean()))


@pytest.mark.parametrize(
    ("name", "period"), [("mase", 1), ("mase-4", 4), ("mase-7", 7), ("mase-12", 12), ("mase-24", 24)]
)
@pytest.mark.parametrize("channels", [1, 2])
def test_the_scaled_error_is_hyndmans(name, period, channels):
    sources, forecasts, truth = corpus(channels, period)
    error = np.abs(np.concatenate([a - b for a, b in zip(forecasts, truth, strict=True)])).mean(0)
    naive = np.abs(np.concatenate([source[period:] - source[:-period] for source in sources])).mean(0)
    assert measured(name, sources, forecasts, truth) == pytest.approx((error / naive).mean())
    assert f"naive {period} of" in metric(name).signature


@pytest.mark.parametrize("name", ["mae", "rmse", "mase", "mase-4"])
def test_statistics_are_sums(name):
    """The statistics of a corpus are the sum of its rows' statistics. Bootstrap and several processes rely on this."""
    sources, forecasts, truth = corpus(channels=2, period=4)
    ours = metric(name)
    rows = [
        ours.statistics(Prediction(text(forecast)), Example(text(source), (text(true),)))
        for source, forecast, true in zip(sources, forecasts, truth, strict=True)
    ]
    assert ours.score(np.sum(rows, 0).tolist()) == pytest.approx(measured(name, sources, forecasts, truth))


def test_the_naive_forecast_one_step_ahead_scores_one():
    series = RANDOM.normal(size=(200, 1)).cumsum(0)
    windows = [series[begin : begin + 11] for begin in range(190)]
    sources, truth = [window[:10] for window in windows], [window[10:] for window in windows]
    assert measured("mase", sources, [source[-1:] for source in sources], truth) == pytest.approx(1, abs=0.05)


def test_every_reference_counts_and_a_constant_source_does_no_harm():
    example = Example("1 1 1", ("2", "4"))
    assert evaluate([metric("mae")], [Prediction("2")], [example]) == {"mae": 1.0}
    both = [example, Example("1 2 3", ("4",))]
    assert evaluate([metric("mase")], [Prediction("2"), Prediction("4")], both)["mase"] == pytest.approx(
        (2 / 3) / (2 / 4)
    )


def test_a_huge_error_is_infinite():
    assert evaluate([metric("rmse")], [Prediction("1e200")], [Example("0", ("1",))]) == {"rmse": math.inf}


@pytest.mark.parametrize(
    ("name", "prediction", "source", "reference", "message"),
    [
        ("mae", "1 2", "0", "1", r"a forecast of 2 steps of 1 cannot be compared with '1', which has 1 of 1: ask"),
        ("rmse", "1,2", "0", "1", r"a forecast of 1 steps of 2 cannot"),
        ("mae", "one", "0", "1", r"'one' is no series of numbers"),
        ("mae", "1 nan", "0", "1 2", r"'1 nan' is no series of numbers"),
        ("mae", "", "0", "1", r"'' is no series of numbers"),
        ("mase", "1", "a", "1", r"'a' is no series of numbers"),
        ("mase-4", "1", "1 2 3 4", "1", r"mase-4 needs sources of more than 4 steps .* '1 2 3 4' has 4 steps of 1"),
        ("mase", "1", "1,2 3,4", "1", r"has 2 steps of 2; 1 are forecast: choose mae or rmse"),
    ],
)
def test_what_cannot_be_measured_is_told(name, prediction, source, reference, message):
    with pytest.raises(ValueError, match=message):
        evaluate([metric(name)], [Prediction(prediction)], [Example(source, (reference,))])
