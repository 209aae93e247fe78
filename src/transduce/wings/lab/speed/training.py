"""The speed of training: the run's own settings, for some seconds, in a folder that is thrown away."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from transduce.core import config
from transduce.core.config.user_data import Merged
from transduce.core.errors import UserError
from transduce.core.protocols import can
from transduce.core.recipes import BUDGET
from transduce.core.registry import find
from transduce.runs.run import Run
from transduce.training.begin import train
from transduce.training.callbacks import Callback, Started, Update
from transduce.training.counted import Counted
from transduce.training.job import Job
from transduce.wings.lab.speed.limit import Shape
from transduce.wings.lab.speed.products import ProductCounter
from transduce.wings.records.making import effort_of

COUNTED = 8  # updates whose operations are counted, before the clock starts
MOST_SHAPES = 4  # of products, on which the limit of the machine is measured


@dataclass(frozen=True)
class TrainingSpeed:
    """The speed of training. ``tokens_per_second`` counts target tokens without padding. ``updates`` is the number of
    updates that were timed.

    ``operations`` is the number of floating-point operations in products for one target token. ``shapes`` are the
    shapes of the products with the most operations.
    """

    tokens_per_second: float
    updates: int
    precision: str
    operations: float
    shapes: tuple[Shape, ...] = ()

    @property
    def gflops(self) -> float:
        """Billions of floating-point operations in products per second."""
        return self.tokens_per_second * self.operations / 1e9


@dataclass(frozen=True)
class Operations:
    """The floating-point operations of a training in products: for one target token, and the ``shapes`` of the products
    with the most of them.
    """

    per_token: float
    shapes: tuple[Shape, ...]


def count_operations(settings: config.Table, run: Path, device: str = "auto") -> Operations:
    """Trains a new model in the directory ``run``, and counts the operations of its updates. The operations of the
    start and of a validation do not count.
    """
    with ProductCounter() as counting:
        observer = _Counted(counting)
        train(Job(run, Merged(settings)), [observer], device)
    effort = effort_of(run)
    assert effort is not None
    assert effort.tokens, "a finished training has counted its tokens"
    shapes = tuple(shape for shape, _ in observer.shapes.most_common(MOST_SHAPES))
    return Operations(observer.operations / effort.tokens, shapes)


class _Counted(Callback):
    """The operations from the start of a training to its last report of updates, which precedes the validation."""

    def __init__(self, counting: ProductCounter) -> None:
        self.counting, self.before, self.operations = counting, 0, 0
        self.shapes: Counter[Shape] = Counter()

    def on_start(self, started: Started) -> None:
        self.before = self.counting.get_total_flops()
        self.counting.shapes.clear()

    def on_update(self, update: Update) -> None:
        self.operations = self.counting.get_total_flops() - self.before
        self.shapes = self.counting.shapes.copy()


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
        operations = count_operations(_settings(run, {"steps": COUNTED}), counted, device)
        observer = _Observer()
        train(Job(timed, Merged(_settings(run, {"minutes": seconds / 60}))), [observer], device)
    return observer.speed(operations)


def _settings(run: Run, budget: dict[str, object]) -> config.Table:
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

    def speed(self, operations: Operations) -> TrainingSpeed:
        if len(self.reports) < 2:
            raise UserError("the time was too short to measure updates: give more --seconds")
        seconds = [after.seconds - before.seconds for before, after in pairwise(self.reports)]
        tokens = [each.tokens_per_second * time for each, time in zip(self.reports[1:], seconds, strict=True)]
        updates = self.reports[-1].step - self.reports[0].step
        rate = sum(tokens) / sum(seconds)
        return TrainingSpeed(rate, updates, self.precision, operations.per_token, operations.shapes)
