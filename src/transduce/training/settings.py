"""What a run is: the tables of its configuration file, each a constructor's arguments."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from transduce import config
from transduce.compute.precision import PrecisionSetting
from transduce.data.batching import Batching
from transduce.data.settings import Data
from transduce.directory import Checkpoint, find_weights, members
from transduce.errors import UserError
from transduce.models.fit import check_fit
from transduce.objectives.chain import ChainLikelihood
from transduce.objectives.cross_entropy import CrossEntropy
from transduce.protocols import Model, Objective, Search, can
from transduce.search.beam import Beam
from transduce.search.greedy import Greedy
from transduce.statistical.counted import Counted
from transduce.training.augmentation.base import Augmentation
from transduce.training.clocks import Clock
from transduce.training.optimization import Adam, InverseSquareRoot, Optimizer, Schedule, check_at_least
from transduce.types import Factory


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
class Init:
    """The run to start from: what of its model fits, by name and shape, is where training begins.

    ``vocabulary`` "keep" takes over its units and vocabularies as they are; "extend" adds the characters, words,
    symbols and labels that only the new data has; "own" learns those of ``data.units``. Embeddings and readouts are
    then matched by token. A run that is resumed goes on from its own checkpoint.
    """

    run: Path
    checkpoint: Checkpoint = "best"
    vocabulary: Literal["keep", "extend", "own"] = "keep"


@dataclass(frozen=True)
class Distillation:
    """Another run, or several (RUN+RUN: an ensemble of them), to learn from: a ``share`` of the loss is cross-entropy
    with its distribution over each next word in place of the target's (Hinton et al. 2015; Kim and Rush 2016).

    It must have this run's vocabularies; a run of the same ``data.units`` takes those that it has. Where every epoch
    reads the same words, and all that the teacher thinks of them fits in ``room`` (GiB), it is asked once, before
    training; else with each batch. It is needed until training has ended.
    """

    teacher: Path
    checkpoint: Checkpoint = "best"
    share: float = 0.5
    room: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise UserError(f"share = {self.share}: more than 0 and at most 1 was expected")
        if not self.room >= 0:
            raise UserError(f"room = {self.room}: 0 GiB, to ask with each batch, or more was expected")


def ancestors(table: config.Table) -> Iterator[tuple[str, Path, Checkpoint]]:
    """The runs that a run's settings have it start from or learn from: the key that names each, its directory and the
    checkpoint that is wanted of it."""
    if "init" in table:
        init = config.build(table["init"], Init, path="init")
        yield from (("init.run", run, init.checkpoint) for run in members(init.run))
    if "distillation" in table:
        taught = config.build(table["distillation"], Distillation, path="distillation")
        yield from (("distillation.teacher", run, taught.checkpoint) for run in members(taught.teacher))


def check_ancestors(table: config.Table, deleted: Collection[Path]) -> None:
    """Raise FileNotFoundError unless the runs that a run would start from or learn from are there, and ValueError where
    they are among those that overwriting is to delete."""
    for key, run, checkpoint in ancestors(table):
        find_weights(run, checkpoint)
        if run.resolve() in {each.resolve() for each in deleted}:
            raise UserError(f"{key} is {run}, which overwrite would delete; choose another directory (out)")


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
