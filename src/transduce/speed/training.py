"""The speed of training: the run's own settings, for some seconds, in a folder that is thrown away."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from transduce import config
from transduce.errors import UserError
from transduce.names import find
from transduce.protocols import can
from transduce.recipes import BUDGET
from transduce.records.making import effort_of
from transduce.runs.run import Run
from transduce.speed.products import counter
from transduce.statistical.counted import Counted
from transduce.training.begin import train
from transduce.training.callbacks import Callback, Started, Update

COUNTED = 4  # updates whose operations are counted, before the clock starts


@dataclass(frozen=True)
class TrainingSpeed:
    """The speed of training. ``tokens_per_second`` counts target tokens without padding. ``updates`` is the number of
    updates that were timed.

    ``operations`` is the number of floating-point operations in products for one target token.
    """

    tokens_per_second: float
    updates: int
    precision: str
    operations: float

    @property
    def gflops(self) -> float:
        """Billions of floating-point operations in products per second."""
        return self.tokens_per_second * self.operations / 1e9


def measure_training(run: Run, seconds: float, device: str = "auto") -> TrainingSpeed:
    """Trains a new model with the settings and the data of ``run``, from random weights, for about ``seconds``. Before
    that it trains another one for ``COUNTED`` updates, to count operations.

    The run itself does not change. Raises UserError for a counted model, which makes no updates, and if the time was
    too short for two reports.
    """
    kind = run.settings["model"]["type"]
    if can(find("Model", kind), Counted):
        raise UserError(f"a model of type {kind} is counted and makes no updates: leave out --part train")
    with tempfile.TemporaryDirectory() as folder:
        counted, timed = Path(folder) / "counted", Path(folder) / "timed"
        with counter() as counting:
            train(_settings(run, {"steps": COUNTED}), counted, device=device)
        effort = effort_of(counted)
        observer = _Observer()
        train(_settings(run, {"minutes": seconds / 60}), timed, callbacks=[observer], device=device)
    assert effort is not None
    assert effort.tokens, "a finished training has counted its tokens"
    return observer.speed(counting.get_total_flops() / effort.tokens)


def _settings(run: Run, budget: dict[str, Any]) -> config.Table:
    """The run's settings with another budget, the run's own prepared data, and the shortest validation."""
    training = {key: value for key, value in run.settings["training"].items() if key not in BUDGET}
    validation = {**training.get("validation", {}), "times": 0, "examples": 1}
    validation.pop("every", None)
    own = {**training, **budget, "validation": validation, "average": 1}
    data = {**run.settings["data"], "cache": str(run.cache)}
    return {**run.settings, "data": data, "training": own}


class _Observer(Callback):
    """Collects the reports of updates. The first report warms up: kernels and caches are made then."""

    def __init__(self) -> None:
        self.precision = ""
        self.reports: list[Update] = []

    def on_start(self, started: Started) -> None:
        self.precision = started.precision

    def on_update(self, update: Update) -> None:
        self.reports.append(update)

    def speed(self, operations: float) -> TrainingSpeed:
        if len(self.reports) < 2:
            raise UserError("the time was too short to measure updates: give more --seconds")
        seconds = [after.seconds - before.seconds for before, after in pairwise(self.reports)]
        tokens = [each.tokens_per_second * time for each, time in zip(self.reports[1:], seconds, strict=True)]
        updates = self.reports[-1].step - self.reports[0].step
        return TrainingSpeed(sum(tokens) / sum(seconds), updates, self.precision, operations)
