"""Compares forecasts of well-known series by models of this package and by classical models, with intervals.

A model reads 24 months of each window and forecasts the next 12. The windows come from the recipe ``series``. Our
models learn from the training split, and read only these 24 months. The classical models know the whole series up to
the forecast. ETS (Holt and Winters, additive season and damped trend) and AR (ordinary least squares on the last 24
months and a trend) are fitted anew for every window by statsmodels. The naive forecast is the last month, and the
seasonal naive forecast is the same month a year ago. Seconds are processor time: for all windows, or for training a
model and using it.

Parentheses have 95 % intervals. Windows overlap, so blocks of 12 neighbours are drawn, 2,000 times (Politis and Romano
1992). The errors of our models are means over their seeds; brackets have each seed's value. The last but one column is
the difference to ETS on the same windows.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import statsmodels
from numpy.typing import NDArray
from report import Report, columns, explained, titled
from statsmodels.tsa.ar_model import AutoReg
from statsmodels.tsa.holtwinters import ExponentialSmoothing

import transduce
from transduce.core import config, recipes
from transduce.core.errors import UserError
from transduce.core.types import Example, Prediction
from transduce.data.preparation import examples
from transduce.data.settings import Data
from transduce.metrics.base import metric
from transduce.metrics.significance import Interval, middle
from transduce.metrics.statistics import Statistics, statistics
from transduce.wings.pages.palette import FAINT, HUES, INK, RULE
from transduce.wings.pages.plots import figure, save

Floats = NDArray[np.float64]
Forecaster = Callable[[Floats], Floats]  # the steps after a history

STEPS = SEASON = 12  # months
METRICS = ("mae", "rmse", "mase-12")
REFERENCE = "ETS"
TITLES = {"co2": "carbon dioxide in the air, ppm", "elnino": "temperature of the sea, °C"}
MARKS = "os^Dv"  # of the forecasts in the picture, which lie close together
RESAMPLES, SEED = 2000, 1


def naive(history: Floats) -> Floats:
    return np.repeat(history[-1:], STEPS)


def seasonal(history: Floats) -> Floats:
    return np.resize(history[-SEASON:], STEPS)


def ets(history: Floats) -> Floats:
    model = ExponentialSmoothing(
        history,
        trend="add",
        damped_trend=True,
        seasonal="add",
        seasonal_periods=SEASON,
        initialization_method="heuristic",
    )
    return np.asarray(model.fit().forecast(STEPS))


def autoregression(history: Floats) -> Floats:
    return np.asarray(AutoReg(history, lags=2 * SEASON, trend="ct").fit().forecast(STEPS))


CLASSICAL: dict[str, Forecaster] = {"naive": naive, "seasonal naive": seasonal, REFERENCE: ets, "AR": autoregression}


def whole(splits: Sequence[Sequence[Example]]) -> Floats:
    """Rebuilds the series from the windows on each of its splits. The windows have a stride of one step."""
    steps: list[str] = []
    for found in splits:
        lines = [f"{example.source} {example.references[0]}".split() for example in found]
        steps += [*lines[0], *(line[-1] for line in lines[1:])]
    return np.array(steps, float)


def told(forecast: Floats) -> Prediction:
    return Prediction(" ".join(f"{number:.6g}" for number in forecast))


def classical(forecaster: Forecaster, series: Floats, origins: Sequence[int]) -> list[Prediction]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fit that did not converge is still a forecast
        return [told(forecaster(series[:origin])) for origin in origins]


# ----------------------------------------------------------------- intervals


def block_counts(windows: int, block: int = STEPS) -> Floats:
    """How often each resample draws each window [R, N]. It draws blocks of neighbours. The first follows the last."""
    draw = np.random.default_rng(SEED)
    starts = draw.integers(windows, size=(RESAMPLES, -(-windows // block)))
    places = (starts[..., None] + np.arange(block)).reshape(RESAMPLES, -1)[:, :windows] % windows
    return np.stack([np.bincount(row, minlength=windows) for row in places]).astype(float)


def sampled(found: Statistics, counts_RN: Floats) -> Floats:
    return found.scores(counts_RN @ found.rows_NK)


def cell(value: float, interval: Interval, sign: str = "") -> str:
    return f"{value:{sign}.3g} ({interval.low:{sign}.3g} to {interval.high:{sign}.3g})"


def line(
    name: str, runs: list[list[Statistics]], reference: list[Statistics], seconds: float, block: int = STEPS
) -> str:
    """A line of the table. ``runs`` has the statistics of each seed. The intervals resample the mean over the seeds."""
    cells = []
    counts_RN = block_counts(len(reference[0].rows_NK), block)
    for place, seeds in enumerate(zip(*runs, strict=True)):
        pooled = Statistics(seeds[0].metric, np.mean([each.rows_NK for each in seeds], 0))
        text = cell(pooled.score, middle(sampled(pooled, counts_RN)))
        cells.append(text + (f" [{', '.join(f'{each.score:.3g}' for each in seeds)}]" if len(seeds) > 1 else ""))
        if place == 0:
            apart = sampled(pooled, counts_RN) - sampled(reference[0], counts_RN)
            difference = cell(pooled.score - reference[0].score, middle(apart), "+")
    return f"| {name} | {' | '.join(cells)} | {'—' if name == REFERENCE else difference} | {seconds:.1f} |"


# ---------------------------------------------------------------------- runs


class Task:
    """A series, and the windows of one split, on which models are measured."""

    def __init__(self, dataset: str, split: str, cache: Path) -> None:
        table = config.override(recipes.read("series"), f"data.origin.dataset={dataset}")["data"]
        data = config.build(table, Data, path="data")
        splits = {name: examples(data, name, cache) for name in ("train", "valid", "test")}
        self.dataset, self.cache = dataset, cache
        self.examples = splits[split]
        self.series = whole(list(splits.values()))
        windows = table["origin"]["windows"]
        lengths = {name: len(found) + windows["steps_in"] + STEPS - 1 for name, found in splits.items()}
        begin = {"valid": lengths["train"], "test": lengths["train"] + lengths["valid"]}[split]
        self.origins = [begin + window + windows["steps_in"] for window in range(len(self.examples))]

    def measured(self, predictions: list[Prediction]) -> list[Statistics]:
        return statistics([metric(name) for name in METRICS], predictions, self.examples)

    def trained(self, model: str, seed: int, settings: Sequence[str], work: Path) -> list[Prediction]:
        own = [f"data.origin.dataset={self.dataset}", f"data.cache={self.cache}", f"training.seed={seed}"]
        run = work / f"{self.dataset}-{model}-{seed}"
        transducer = transduce.train(f"series-{model}", run, [*own, *settings], device="cpu", progress=False)
        return [Prediction(text) for text in transducer([example.source for example in self.examples])]


def main(
    report: Report,
    *,
    series: Annotated[Sequence[str], ("co2", "elnino")] = ("co2", "elnino"),
    models: Sequence[str] = ("dense", "lstm", "transformer"),
    seeds: Sequence[int] = (1, 2, 3),
    split: Literal["valid", "test"] = "test",
    settings: Sequence[str] = (),
    picture: Annotated[Path | None, "draw the last window of each series"] = None,
) -> None:
    if any(each.startswith("training.seed") for each in settings):
        raise UserError("--set training.seed: --seeds says which")
    report.split = split
    report.tell(*titled("Forecasting: models of this package beside classical ones"), *explained(__doc__))
    report.tell(f"statsmodels is {statsmodels.__version__}.")
    drawn: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for dataset in series:
            task = Task(dataset, split, Path(folder) / "cache")

            def trained(model: str, task: Task = task) -> list[list[Prediction]]:
                return [task.trained(model, seed, settings, Path(folder)) for seed in seeds]

            drawn[dataset] = table(task, models, trained, report)
    if picture is not None:
        draw(drawn, picture)


def table(
    task: Task, models: Sequence[str], trained: Callable[[str], list[list[Prediction]]], report: Report
) -> dict[str, str]:
    """Tells the table of one series. ``trained`` has the forecasts of a model by each seed. Returns the last window and
    the forecasts of it by all models.
    """
    report.tell(
        "",
        f"## {task.dataset}: {len(task.series)} steps, {len(task.examples)} windows of the {report.split} split",
        "",
        *columns(f"| model | MAE | RMSE | {METRICS[2]} | MAE − MAE of {REFERENCE} | seconds |"),
    )
    last = task.examples[-1]
    drawn = {"source": last.source, "what came": last.references[0]}
    found: dict[str, tuple[list[Statistics], float]] = {}
    for name, forecaster in CLASSICAL.items():
        began = time.process_time()
        predictions = classical(forecaster, task.series, task.origins)
        found[name] = task.measured(predictions), time.process_time() - began
        drawn[name] = predictions[-1].text
    reference = found[REFERENCE][0]
    for name, (measured, seconds) in found.items():
        report.tell(line(name, [measured], reference, seconds))
    for model in models:
        began = time.process_time()
        runs = trained(model)
        seconds = (time.process_time() - began) / len(runs)
        report.tell(line(model, [task.measured(predictions) for predictions in runs], reference, seconds))
        drawn[model] = runs[0][-1].text
    return drawn


def draw(drawn: dict[str, dict[str, str]], path: Path) -> None:
    """Draws the last window of each series: source and target in black, the forecasts in colours, without the naive."""
    sheet = figure(11, 4)
    for axes, (dataset, texts) in zip(sheet.subplots(1, len(drawn), squeeze=False)[0], drawn.items(), strict=True):
        numbers = {name: [float(step) for step in text.split()] for name, text in texts.items() if "naive" not in name}
        source, truth = numbers.pop("source"), numbers.pop("what came")
        months = range(1 - len(source), len(truth) + 1)
        axes.plot(months, [*source, *truth], color=INK, linewidth=2.4, label="the series")
        for (name, forecast), hue, mark in zip(numbers.items(), HUES, MARKS, strict=False):
            axes.plot(months[-len(truth) :], forecast, f"{mark}-", color=hue, label=name, linewidth=1.3, markersize=4)
        axes.axvspan(0.5, len(truth) + 0.5, color=RULE, alpha=0.4, linewidth=0)
        axes.set_title(TITLES[dataset], loc="left", fontsize=11, color=INK)
        axes.set_xlabel("months; 1 to 12 were forecast", color=FAINT)
        axes.set_xticks(range(-SEASON, STEPS + 1, 6))
        axes.set_xlim(-SEASON - 0.5, STEPS + 0.5)
        axes.grid(axis="y", color=RULE, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0, labelsize=9, labelcolor=INK)
    sheet.legend(*axes.get_legend_handles_labels(), loc="outside right center", frameon=False, labelcolor=INK)
    save(sheet, path)
