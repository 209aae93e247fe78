"""What a run is: the tables of its configuration file, each a constructor's arguments."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from transduce import config
from transduce.compute.precision import PrecisionSetting
from transduce.config.checking import UNKNOWN
from transduce.data.batching import Batching
from transduce.data.settings import Data
from transduce.errors import UserError
from transduce.metrics.base import metric
from transduce.models.fit import check_fit
from transduce.objectives.chain import ChainLikelihood
from transduce.objectives.cross_entropy import CrossEntropy
from transduce.protocols import Model, Objective, Search, can
from transduce.runs.ancestry import Distillation, Init
from transduce.search.beam import Beam
from transduce.search.greedy import Greedy
from transduce.statistical.counted import Counted
from transduce.training.augmentation.base import Augmentation
from transduce.training.clocks import Clock
from transduce.training.optimization import Adam, InverseSquareRoot, Optimizer, Schedule, check_at_least
from transduce.types import Factory, Facts


@dataclass(frozen=True)
class Budget:
    """How long to train: any of updates, passes over the data and minutes (validation included); the first to run out.

    Only a budget without minutes is repeated bit for bit by a run that was interrupted.
    """

    steps: int | None = None
    epochs: float | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        given = {"steps": self.steps, "epochs": self.epochs, "minutes": self.minutes}
        if all(limit is None for limit in given.values()):
            raise UserError("training has no end: set training.steps, training.epochs or training.minutes")
        for name, limit in given.items():
            if limit is not None and not limit > 0:
                raise UserError(f"training.{name} = {limit}: more than 0 was expected")

    def progress(self, steps: int, epochs: float, seconds: float, reserve: float = 0.0) -> float:
        """The share used, from 0 to 1 (or just past it); ``reserve`` seconds are kept for the last validation."""
        shares = [0.0]
        if self.steps is not None:
            shares.append(steps / self.steps)
        if self.epochs is not None:
            shares.append(epochs / self.epochs)
        if self.minutes is not None:
            shares.append(seconds / max(60 * self.minutes - reserve, 1e-9))
        return max(shares)


@dataclass(frozen=True)
class Validation:
    """Loss and metrics on ``data.valid``: ``times`` in the budget, or ``every`` so many updates.

    The first metric (or ``loss``) chooses the best checkpoint; training stops early after ``patience`` validations
    without a better one. ``search`` is what the metrics are computed through, on ``examples`` examples, evenly spaced
    (all, if not given), and the loss of about as many; without metrics the loss is of all.
    """

    times: int = 10
    every: int | None = None
    metrics: tuple[str, ...] = ()
    search: Search[Any] = field(default_factory=Greedy)
    examples: int | None = None
    patience: int | None = None

    def __post_init__(self) -> None:
        check_at_least("training.validation.times", self.times, 0)
        for name in ("every", "examples", "patience"):
            check_at_least(f"training.validation.{name}", getattr(self, name), 1)


@dataclass(frozen=True)
class Training:
    """One loop for every model.

    ``clock`` "processor" counts ``minutes`` by the processor's work for this run alone, whatever else the machine does
    (on a GPU that is not the time that it takes). ``batching`` forms the batches, ``accumulate`` of them make an
    update; ``augmentation`` changes the signals in them, one after the other, anew in each epoch; ``clip`` bounds the
    gradient's norm (0: nothing does); ``precision`` "auto" is bfloat16 where the machine multiplies it natively;
    ``checkpoint_every`` updates the state is saved (default: at each validation); the last ``average`` validated models
    are averaged at the end, and the average becomes the best where it is. ``freeze`` names modules or parameters
    ("encoder", "decoder.embedding", "*.bias") that keep their values.
    """

    steps: int | None = None
    epochs: float | None = None
    minutes: float | None = None
    clock: Clock = "wall"
    batching: Batching = field(default_factory=Batching)
    augmentation: tuple[Augmentation, ...] = ()
    accumulate: int = 1
    optimizer: Optimizer = field(default_factory=Adam)
    schedule: Schedule = field(default_factory=InverseSquareRoot)
    clip: float = 1.0
    precision: PrecisionSetting = "auto"
    validation: Validation = field(default_factory=Validation)
    checkpoint_every: int | None = None
    average: int = 1
    freeze: tuple[str, ...] = ()
    seed: int = 1

    @property
    def budget(self) -> Budget:
        return Budget(self.steps, self.epochs, self.minutes)

    def __post_init__(self) -> None:
        Budget(self.steps, self.epochs, self.minutes)  # refuses what is no budget
        for name in ("accumulate", "average", "checkpoint_every"):
            check_at_least(f"training.{name}", getattr(self, name), 1)
        check_at_least("training.clip", self.clip, 0)
        check_at_least("training.seed", self.seed, 0)


@dataclass(frozen=True)
class Settings:
    """A run, written down: ``transduce train`` reads it from a TOML file and keeps it in the run directory."""

    data: Data
    model: Factory[Model]
    training: Training
    init: Init | None = None
    distillation: Distillation | None = None
    objective: Objective[Any] = field(default_factory=CrossEntropy)
    search: Search[Any] = field(default_factory=Beam)
    metrics: tuple[str, ...] = ("exact",)

    def __post_init__(self) -> None:
        model: Any = getattr(self.model, "constructor", self.model)  # of a Spec; or the class itself
        check_fit("objective", "Objective", type(self.objective), model)
        if can(model, Counted):
            self._check_counted(model.__name__)
        check_fit("search", "Search", type(self.search), model)
        if self.distillation and not isinstance(self.objective, CrossEntropy):
            raise UserError(
                f"distillation is of what is learned by cross-entropy, and the objective is "
                f"{type(self.objective).__name__}: leave out one, or train on the outputs of `transduce predict`"
            )
        if self.training.validation.metrics:
            check_fit("training.validation.search", "Search", type(self.training.validation.search), model)

    def _check_counted(self, model: str) -> None:
        """Raise ConfigError for what only gradients can follow."""
        asked = {
            "objective": self.objective not in (CrossEntropy(), ChainLikelihood()),  # by which it is measured
            "distillation": self.distillation is not None,
            "training.freeze": bool(self.training.freeze),
            "training.augmentation": bool(self.training.augmentation),
        }
        for key in (key for key, there in asked.items() if there):
            raise config.ConfigError(key, f"{model} is counted, and not trained by gradients: leave {key} out")


def read_settings(table: config.Table) -> Settings:
    """The settings of a run before its data is known. Raises ConfigError, or ValueError, if they are none of a run."""
    unknown: Any = UNKNOWN  # the model is a factory, so nothing needs its sizes yet
    settings = config.build(table, Settings, Facts(**{fact.name: unknown for fact in fields(Facts)}))
    if not settings.metrics:
        raise config.ConfigError("metrics", '[]: by what evaluation measures was expected, such as ["exact"]')
    for name in (*settings.training.validation.metrics, *settings.metrics):
        metric(name)
    return settings
