"""Compares forecasts with intervals by the Kalman filter, ETS, an autoregression and networks, with and without gaps.

The first table is of simulated series of 36 steps: the first 24 are read, and the last 12 forecast. The table has the
share of numbers inside the 90 % intervals. "Known" uses the parameters that the series were drawn with. The other
columns estimate them from 300 series of the same model by ``transduce train series-kalman``, with at most 200 passes of
expectation maximisation (EM) or by gradient. The rows with 20 % missing lack a fifth of the numbers, both for
estimation and for forecasts.

The other tables are of real series, with the windows of the recipe ``series``. The row "24 months" and the networks
read the 24 months of a window, after training on the windows of the training split. The row "whole past" is a Kalman
filter of the same components. It learned from the training split as one series (``model.start = "wide"``), and reads
all months before the forecast with these parameters. ETS (error, damped trend and season additive) and AR (24 lags, a
trend and a constant) are fitted anew by statsmodels for every window, on all months before the forecast. Their
intervals are normal, too. The networks are the recipes ``series-dense``, ``series-lstm`` and ``series-transformer``
with the model ``density-forecaster`` and ``objective = "log-density"``. Seconds are processor time: for all windows, or
for training a model and using it.

The tables with missing steps have no value for a fifth of a real series, drawn at random. The Kalman filter reads the
gaps. ETS, AR and the networks read sources without gaps. Straight lines join the known months before the forecast. A
gap at either end gets the value of the nearest known month. All forecasts are compared with the complete series.

Parentheses have 95 % intervals. Windows overlap, so blocks of 24 neighbours are drawn, 2,000 times (Politis and Romano
1992). The values of networks are means over their seeds; brackets have each seed's value. The last but one column is
the difference to ETS on the same windows.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
import statsmodels
import torch
from forecasting import REFERENCE, SEASON, STEPS, Floats, Task, line
from report import Report, explained, titled
from statsmodels.tsa.ar_model import AutoReg
from statsmodels.tsa.exponential_smoothing.ets import ETSModel
from torch import Tensor

import transduce
from transduce.core import config, recipes
from transduce.core.types import EOS, Example, Facts, Padded, Prediction
from transduce.data.base import Split
from transduce.metrics.base import metric
from transduce.metrics.statistics import Statistics, statistics
from transduce.wings.counted.kalman.filtering import Parameters
from transduce.wings.counted.models.kalman import KalmanFilter
from transduce.wings.recipes.origins.windows import Windows

READ = 24  # months
MISSING = 0.2
METRICS = ("crps", "mae", "coverage", "coverage-50")
HEADS = ("CRPS", "MAE", "in 90 % intervals", "in 50 % intervals")
BLOCK = 24  # windows that are drawn together
COMPONENTS: dict[str, list[Any]] = {  # chosen on the validation split
    "co2": ["trend", {"type": "season", "period": SEASON}],
    "elnino": [{"type": "season", "period": SEASON}, {"type": "autoregression", "order": 2}],
}
PARTS = ("simulated", *COMPONENTS)
Density = tuple[Floats, Floats]  # means and deviations of the steps after a history


# ---------------------------------------------------------- simulated series


@dataclass(frozen=True)
class Shape:
    """A model with known parameters, and its settings for ``transduce train``."""

    title: str
    components: list[Any]
    channels: int
    changes: dict[str, Any]  # values that replace untrained parameters, by their names in KalmanFilter


def shapes() -> list[Shape]:
    draw = torch.Generator().manual_seed(1)
    root = torch.randn(3, 3, generator=draw, dtype=torch.float64)
    noise = (root @ root.T).tolist()
    return [
        Shape("local level", ["level"], 1, {"noise": [[0.4]]}),
        Shape("trend and a season of 12", COMPONENTS["co2"], 1, {}),
        Shape(
            "damped trend and AR(2), 2 channels",
            [{"type": "trend", "damped": True}, {"type": "autoregression", "order": 2}],
            2,
            {"noise": [[0.3, 0.2], [0.2, 0.5]]},
        ),
        Shape("3 free states, 2 channels", [{"type": "free", "states": 3}], 2, {"state_noise": noise}),
    ]


def known(shape: Shape) -> KalmanFilter:
    """The filter with the parameters that series are drawn with."""
    torch.manual_seed(1)
    table = {"components": shape.components, "steps": STEPS}
    facts = Facts(source_vocabulary=shape.channels, target_vocabulary=shape.channels, source_factors=shape.channels)
    model: KalmanFilter = config.build(table, KalmanFilter, facts)
    for name, value in shape.changes.items():
        getattr(model, name).data = torch.tensor(value, dtype=torch.float64)
    return model


def drawn(model: Parameters, rows: int, seed: int) -> Tensor:
    """Draws series [rows, READ + STEPS, C] from a model."""
    draw = torch.Generator().manual_seed(seed)

    def normal(covariance: Tensor) -> Tensor:
        values, vectors = torch.linalg.eigh(covariance)
        root = vectors * values.clamp(min=0).sqrt()
        numbers: Tensor = torch.randn(rows, len(covariance), generator=draw, dtype=torch.float64) @ root.T
        return numbers

    state = model.mean + normal(model.covariance)
    steps = []
    for _ in range(READ + STEPS):
        steps.append(state @ model.observation.T + normal(model.noise))
        state = state @ model.transition.T + normal(model.state_noise)
    return torch.stack(steps, 1)


def with_gaps(values: Tensor, share: float, seed: int) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return values.masked_fill(torch.rand(values.shape, generator=draw) < share, torch.nan)


def held(model: KalmanFilter, history: Tensor, later: Tensor) -> Tensor:
    """Whether each number of ``later`` [B, T, C] is inside its 90 % interval."""
    found = []
    for read, wanted in zip(torch.split(history, 500), torch.split(later, 500), strict=True):
        ended = torch.cat([read.flatten(1), torch.full((len(read), 1), float(EOS), dtype=read.dtype)], 1)
        lengths = torch.full((len(ended),), ended.shape[1])
        forecasts = model.distribution(Padded(ended, lengths), torch.full_like(lengths, STEPS))
        reach = float(torch.special.ndtri(torch.tensor(0.95, dtype=torch.float64)))
        found.append((wanted - forecasts.mean).abs() <= reach * forecasts.deviation)
    return torch.cat(found)


def text(series: Tensor) -> str:
    return " ".join(",".join(f"{number:.6g}" for number in step) for step in series.tolist())


def pairs(series: Tensor) -> list[tuple[str, str]]:
    return [(text(each[:READ]), text(each[READ:])) for each in series]


def estimated(shape: Shape, series: Tensor, measured: list[Example], estimation: str, work: Path) -> float:
    """Estimates parameters from ``series``. Returns the percentage of the measured numbers inside their intervals."""
    settings = {
        "model.components": shape.components,
        "model.estimation": estimation,
        "training.steps": 200 if estimation == "em" else 50,
        "data.valid.path": str(written(work / "valid.tsv", pairs(series[:20]))),
    }
    found = transduce.train("series-kalman", work / "run", settings, pairs(series), device="cpu", progress=False)
    return found.evaluate(measured, [metric("coverage")]).scores["coverage"]


def written(path: Path, rows: list[tuple[str, str]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")
    return path


def simulated(rows: int, work: Path) -> Iterator[str]:
    """The table of simulated series."""
    yield from ("", f"## Simulated series: {rows:,} of each model, in 90 % intervals (percent)", "")
    yield "| model | missing | known | known, step 1 | known, step 12 | EM | gradient |"
    yield "|---|---|---|---|---|---|---|"
    for shape, share in product(shapes(), (0.0, MISSING)):
        model = known(shape)
        parameters = model.parameters_now()
        series = drawn(parameters, rows, seed=2)
        history, later = with_gaps(series[:, :READ], share, seed=3), series[:, READ:]
        inside = held(model, history, later).double().mean((0, 2)) * 100
        cells = [shape.title, f"{share:.0%}", f"{inside.mean():.2f}", f"{inside[0]:.2f}", f"{inside[-1]:.2f}"]
        train = with_gaps(drawn(parameters, 300, seed=4), share, seed=5)
        measured = [Example(text(a), (text(b),)) for a, b in zip(history[:2000], later[:2000], strict=True)]
        for estimation in ("em", "gradient"):
            with tempfile.TemporaryDirectory(dir=work) as folder:
                cells.append(f"{estimated(shape, train, measured, estimation, Path(folder)):.2f}")
        yield f"| {' | '.join(cells)} |"


# --------------------------------------------------------------- real series


def filled(history: Floats) -> Floats:
    """The history without gaps: straight lines between known steps, and the nearest known step at the ends."""
    known = ~np.isnan(history)
    places = np.arange(len(history))
    return np.interp(places, places[known], history[known])


def ets(history: Floats) -> Density:
    model = ETSModel(
        pd.Series(filled(history)),
        error="add",
        trend="add",
        damped_trend=True,
        seasonal="add",
        seasonal_periods=SEASON,
        initialization_method="heuristic",
    )
    found = model.fit(disp=False).get_prediction(len(history), len(history) + STEPS - 1)
    return np.asarray(found.predicted_mean), np.sqrt(np.asarray(found.forecast_variance))


def autoregression(history: Floats) -> Density:
    model = AutoReg(filled(history), lags=2 * SEASON, trend="ct").fit()
    found = model.get_prediction(len(history), len(history) + STEPS - 1)
    return np.asarray(found.predicted_mean), np.asarray(found.se_mean)


CLASSICAL: dict[str, Callable[[Floats], Density]] = {REFERENCE: ets, "AR": autoregression}


def told(forecast: Density) -> Prediction:
    mean, deviation = forecast
    return Prediction(" ".join(f"{number:.6g}" for number in mean), deviations=tuple(deviation.tolist()))


def spoken(numbers: Floats) -> str:
    return " ".join(f"{number:.6g}" for number in numbers)


class Gapped:
    """A task's series with some of its steps removed, and the windows on it."""

    def __init__(self, task: Task, share: float, seed: int = 1) -> None:
        self.task, self.share = task, share
        gone = np.random.default_rng(seed).random(len(task.series)) < share
        self.series = np.where(gone, np.nan, task.series)

    def part(self, split: Split) -> range:
        """The indices of a split's steps, as the recipe ``series`` divides the series."""
        return Windows(READ, STEPS, test=0.25).parts(len(self.series))[split]

    def windows(self, split: Split, fill: bool) -> list[tuple[str, str]]:
        """The windows of a split. If ``fill`` is True, the gaps of the sources are filled."""
        part = self.part(split)
        return [
            (self.read(self.series[now - READ : now], fill), spoken(self.series[now : now + STEPS]))
            for now in range(part.start + READ, part.stop - STEPS + 1)
        ]

    def read(self, history: Floats, fill: bool) -> str:
        return spoken(filled(history) if fill else history)

    def measured(self, predictions: list[Prediction]) -> list[Statistics]:
        """The statistics of the forecasts, compared with the complete targets."""
        return statistics([metric(name) for name in METRICS], predictions, self.task.examples)

    def trained(
        self, recipe: str, pairs: list[tuple[str, str]], fill: bool, settings: dict[str, Any], work: Path
    ) -> transduce.Transducer:
        own = {"data.valid.path": str(written(work / "valid.tsv", self.windows("valid", fill))), **settings}
        return transduce.train(recipe, work / "run", own, pairs, device="cpu", progress=False, overwrite=True)


def answered(transducer: transduce.Transducer, sources: list[str]) -> list[Prediction]:
    given = transducer.answer([transduce.Request(source) for source in sources])
    return [Prediction(each.best.text, deviations=each.best.deviations) for each in given]


def kalman(gapped: Gapped, work: Path) -> Iterator[tuple[str, list[Prediction], float]]:
    """Yields the names, forecasts and seconds of the Kalman filter: once for windows, and once for the whole past."""
    shape = {"model.components": COMPONENTS[gapped.task.dataset]}
    end = gapped.part("train").stop
    one = [(gapped.read(gapped.series[: end - STEPS], False), spoken(gapped.series[end - STEPS : end]))]
    for name, reach, pairs, settings in (
        ("Kalman, 24 months", READ, gapped.windows("train", False), shape),
        ("Kalman, whole past", len(gapped.series), one, {**shape, "model.start": "wide"}),
    ):
        began = time.process_time()
        transducer = gapped.trained("series-kalman", pairs, False, settings, work)
        sources = [gapped.read(gapped.series[max(0, end - reach) : end], False) for end in gapped.task.origins]
        yield name, answered(transducer, sources), time.process_time() - began


def network(gapped: Gapped, name: str, seed: int, work: Path) -> list[Prediction]:
    settings = {
        "model": {**recipes.read(f"series-{name}")["model"], "type": "density-forecaster"},
        "objective": "log-density",
        "data.units": {"joint": {"type": "numbers", "missing": True}},
        "training.seed": seed,
    }
    transducer = gapped.trained(f"series-{name}", gapped.windows("train", True), True, settings, work)
    return answered(transducer, [gapped.read(gapped.series[end - READ : end], True) for end in gapped.task.origins])


def real(gapped: Gapped, models: Sequence[str], seeds: Sequence[int], work: Path) -> Iterator[str]:
    """The table of one series."""
    task = gapped.task
    gaps = f", with {np.isnan(gapped.series).sum()} of them missing" if gapped.share else ""
    yield from ("", f"## {task.dataset}: {len(task.series)} steps{gaps}; {len(task.examples)} windows", "")
    yield f"| model | {' | '.join(HEADS)} | CRPS − CRPS of {REFERENCE} | seconds |"
    yield f"|{'---|' * (len(HEADS) + 3)}"
    found: list[tuple[str, list[list[Statistics]], float]] = []
    for name, forecaster in CLASSICAL.items():
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a fit that did not converge is still a forecast
            predictions = [told(forecaster(gapped.series[:end])) for end in task.origins]
        found.append((name, [gapped.measured(predictions)], time.process_time() - began))
    found += [(name, [gapped.measured(each)], seconds) for name, each, seconds in kalman(gapped, work)]
    for model in models:
        began = time.process_time()
        runs = [gapped.measured(network(gapped, model, seed, work)) for seed in seeds]
        found.append((model, runs, (time.process_time() - began) / len(runs)))
    reference = found[0][1][0]
    for name, runs, seconds in found:
        yield line(name, runs, reference, seconds, BLOCK)


def main(
    report: Report,
    *,
    parts: Annotated[Sequence[str], PARTS] = PARTS,
    models: Sequence[str] = ("dense", "lstm", "transformer"),
    seeds: Sequence[int] = (1, 2, 3),
    rows: Annotated[int, "simulated series of each model"] = 8000,
    split: Literal["valid", "test"] = "test",
) -> None:
    report.split = split
    report.tell(*titled("Intervals of forecasts: the Kalman filter beside ETS, an autoregression and networks"))
    report.tell(*explained(__doc__), f"statsmodels is {statsmodels.__version__}.")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for part, share in product(parts, (0.0, MISSING)):
            if part != "simulated":
                table = real(Gapped(Task(part, split, work / "cache"), share), models, seeds, work)
            elif not share:
                table = simulated(rows, work)
            else:
                continue
            for each in table:
                report.tell(each)
