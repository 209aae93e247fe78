"""A training run, from its settings to a run directory that holds everything a ``Transducer`` needs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch

from transduce import config
from transduce.compute.device import choose_device
from transduce.compute.precision import autocast, bound_kernel_cache, choose_precision
from transduce.config.checking import UNKNOWN
from transduce.data.batching import Batches
from transduce.data.preparation import Prepared
from transduce.data.settings import Data
from transduce.directory import CHECKPOINTS, CONFIG, INHERITED, METRICS, STATE, TOKENIZERS, replace_file
from transduce.metrics.base import metric
from transduce.models.fit import check_words
from transduce.objectives.cross_entropy import Trainable
from transduce.protocols import ComparesTexts, Objective, can
from transduce.statistical.counted import Counted
from transduce.training.augmentation.base import check_augmentation
from transduce.training.callbacks import Callback, Finished, JsonLines, Started
from transduce.training.checkpoint import State, load_training, replace_folder, resume_point
from transduce.training.counting import Counting
from transduce.training.data import cache_folder, prepare_for
from transduce.training.distillation import Teacher
from transduce.training.freezing import freeze
from transduce.training.initialisation import Inheritance, Predecessor
from transduce.training.lock import alone
from transduce.training.loop import Loop
from transduce.training.settings import Distillation, Init, Settings
from transduce.training.validation import judge_of
from transduce.types import Facts


class RunExistsError(FileExistsError):
    """A directory already holds a run."""

    def __init__(self, run: Path) -> None:
        super().__init__(
            f"{run} already holds a run: go on with it (--resume), delete it (--overwrite), or choose another "
            "directory (--out)"
        )


def train(
    table: config.Table, run: Path, resume: bool = False, callbacks: Sequence[Callback] = (), device: str = "auto"
) -> Finished:
    """Train what ``table`` describes into the directory ``run``.

    Files, settings and their fit are checked before anything is learned. With ``resume`` an interrupted run goes on
    from its last checkpoint (or begins, where there is none yet); without it a directory that holds a run is refused,
    as is one where another training is at work.
    """
    check(table)
    bound_kernel_cache()
    where = choose_device(device)
    with alone(run, "training"):
        return _train(table, run, resume, callbacks, where)


def _train(
    table: config.Table, run: Path, resume: bool, callbacks: Sequence[Callback], where: torch.device
) -> Finished:
    if (run / CONFIG).exists() and not resume:
        raise RunExistsError(run)
    point = resume_point(run / CHECKPOINTS) if resume else None
    plan = _settle(table, run, point, where)
    torch.manual_seed(plan.settings.training.seed)
    model: Any = plan.settings.model()
    every = [JsonLines(run / METRICS), *callbacks]
    if can(type(model), Counted):
        done = point is not None and not _changes(point, plan.table)
        return _counted(run, plan, every) if done else _counting(model, run, plan, every)()
    return _loop(model, run, plan, point, every)()


def _loop(model: Any, run: Path, plan: _Plan, point: Path | None, callbacks: list[Callback]) -> Loop:
    """Updates by gradients, from a checkpoint ``point`` where there is one."""
    training = plan.settings.training
    inherited = plan.hand_over(model)
    frozen = freeze(model, training.freeze)
    model.to(plan.where)
    trainable = Trainable(model, plan.objective)
    optimizer = training.optimizer(model.parameters())
    state = State() if point is None else load_training(point, model, optimizer)
    anew = () if point is None else _other_measure(point, plan.table)
    if anew:
        state = replace(state, best=None, validations=(), stale=0)
    told = (*(inherited.lines() if inherited else ()), *plan.lessons, *anew)
    report = (*plan.read, *told, *frozen, *_changes(point, plan.table))
    # once the checkpoint is known to fit, lest a slip spoil the run's own settings
    _write_run(run, plan, inherited)
    computing = autocast(choose_precision(training.precision, plan.where), plan.where)
    judge = judge_of(trainable, plan.settings, plan.prepared, plan.cache, computing)
    parameters = sum(p.numel() for p in model.parameters())
    _start(callbacks, Started(run, parameters, state.step, str(plan.where), training.precision, report))
    return Loop(
        trainable=trainable,
        optimizer=optimizer,
        batches=Batches(plan.prepared.train, training.batching, training.seed),
        training=training,
        judge=judge,
        autocast=computing,
        callbacks=callbacks,
        run=run,
        configuration=config.write(plan.table),
        state=state,
    )


def _counting(model: Any, run: Path, plan: _Plan, callbacks: list[Callback]) -> Counting:
    """Counts, from the beginning."""
    pairs, exactly = plan.prepared.train, nullcontext
    counts = model.to(plan.where).counts(pairs)
    init = plan.settings.init
    whose = () if init is None else (f"has the vocabularies of {init.run} ({init.vocabulary}), and nothing else of it",)
    _write_run(run, plan, None)
    judge = judge_of(Trainable(model, plan.objective), plan.settings, plan.prepared, plan.cache, exactly)
    _start(callbacks, Started(run, 0, 0, str(plan.where), "float32", (*plan.read, *whose, *counts.report)))
    return Counting(model, counts, plan.settings.training, judge, callbacks, run, config.write(plan.table))


def _counted(run: Path, plan: _Plan, callbacks: list[Callback]) -> Finished:
    """What has been counted by these very settings would be the same again."""
    about = json.loads((run / CHECKPOINTS / "last" / STATE).read_text())
    _start(callbacks, Started(run, 0, about["step"], str(plan.where), "float32", ("counted already",)))
    finished = Finished(run, "budget", about["step"], about["step"], about["seconds"])
    for callback in callbacks:
        callback.on_finish(finished)
    return finished


def _start(callbacks: list[Callback], started: Started) -> None:
    for callback in callbacks:
        callback.on_start(started)


def check(table: config.Table) -> None:
    """Raise ValueError unless the settings are a run's, as far as can be told without its data."""
    unknown: Any = UNKNOWN  # the model is a factory: nothing asks for them yet
    settings = config.build(table, Settings, Facts(**{fact.name: unknown for fact in fields(Facts)}))
    if not settings.metrics:
        raise config.ConfigError("metrics", '[]: by what evaluation measures was expected, such as ["exact"]')
    for name in (*settings.training.validation.metrics, *settings.metrics):
        metric(name)


@dataclass(frozen=True)
class _Plan:
    """What a run is to be: its settings, as a table with nothing left open and as objects, and its data."""

    table: config.Table
    settings: Settings
    prepared: Prepared
    cache: Path
    where: torch.device
    predecessor: Predecessor | None
    teacher: Teacher | None

    @property
    def read(self) -> tuple[str, ...]:
        """What was read, for people."""
        return (*self.prepared.report.lines(), *self.settings.data.borrowed())

    @property
    def objective(self) -> Objective[Any]:
        own: Any = self.settings.objective
        if isinstance(own, ComparesTexts):
            own = own.reading(self.prepared.target_tokenizer.decode)
        return self.teacher.taught(own, self.prepared.train, self.settings.training) if self.teacher else own

    @property
    def lessons(self) -> list[str]:
        """From whom it learns, for people."""
        own: Any = self.settings.objective
        return self.teacher.lines(own, self.prepared.train, self.settings.training) if self.teacher else []

    def hand_over(self, model: Any) -> Inheritance | None:
        if self.predecessor is None:
            return None
        return self.predecessor.hand_over(model, self.table["model"], self.prepared.tokenizers)


def _settle(table: config.Table, run: Path, point: Path | None, where: torch.device) -> _Plan:
    """Read the data and see that all fits it; what goes on from a checkpoint ``point`` needs no predecessor."""
    init = config.build(table["init"], Init, path="init") if "init" in table else None
    predecessor = Predecessor(init) if init and point is None else None
    if predecessor:
        table = predecessor.settings(table)
    taught = config.build(table["distillation"], Distillation, path="distillation") if "distillation" in table else None
    teacher = Teacher(taught, where) if taught else None
    data = config.build(table["data"], Data, path="data")
    cache = cache_folder(data, run)
    prepared = prepare_for(run, data, cache, init, predecessor, teacher.vocabularies(data) if teacher else None)
    table = config.resolve(table, Settings, prepared.facts)
    check_words(table["model"], prepared.facts)
    table["training"]["precision"] = choose_precision(table["training"]["precision"], where)
    settings = config.build(table, Settings, prepared.facts)
    check_augmentation(settings.training.augmentation, prepared.tokenizers.source.signal)
    if teacher:
        teacher.check(prepared.tokenizers)
    return _Plan(table, settings, prepared, cache, where, predecessor, teacher)


def _write_run(run: Path, plan: _Plan, inherited: Inheritance | None) -> None:
    """Whatever is written is written beside its place and renamed, config.toml last: it is what makes it a run.

    A run that goes on has its tokenizers, and reads its data by them (``prepare_for``).
    """
    if not (run / CONFIG).exists():
        replace_folder(run / TOKENIZERS, plan.prepared.tokenizers.save)
    if inherited is not None:
        (run / INHERITED).write_text(json.dumps(inherited.as_json(), indent=1), encoding="utf-8")
    replace_file(run / CONFIG, config.write(plan.table))


def _changes(point: Path | None, table: config.Table) -> list[str]:
    """What differs between the settings and those the checkpoint was made with, a line each; the settings win.

    ConfigError tells of an ``init`` that differs, as a run cannot have begun elsewhere, and of ``data.units``, as it
    keeps its vocabularies.
    """
    if point is None:
        return []
    then = config.flatten(config.read(point / CONFIG))
    now = config.flatten(table)
    changed = {
        key: f"{key} = {now.get(key, 'default')!r} (was {then.get(key, 'default')!r})"
        for key in sorted(then.keys() | now.keys())
        if then.get(key) != now.get(key)
    }
    units = {key: change for key, change in changed.items() if key.startswith("data.units.")}
    if units.keys() & then.keys():  # else they are a newer version's keys, with their defaults
        raise config.ConfigError(
            "",
            f"{', '.join(units.values())}: a run keeps its vocabularies; leave it, or begin another run, if need be "
            "from this one (--init)",
        )
    if elsewhere := [change for key, change in changed.items() if key.startswith("init.")]:
        raise config.ConfigError(
            "",
            f"{', '.join(elsewhere)}: what is resumed goes on from its own checkpoint; leave it, or begin another run",
        )
    return [f"changed since the checkpoint: {change}" for change in changed.values()]


def _other_measure(point: Path, table: config.Table) -> tuple[str, ...]:
    """A line where another measure than before chooses the best checkpoint; what the two have measured does not
    compare."""
    then, now = (
        next(iter(each["training"]["validation"]["metrics"]), "loss") for each in (config.read(point / CONFIG), table)
    )
    if then == now:
        return ()
    return (f"{now} chooses the best checkpoint from here on, where {then} did: the next one validated is the best",)
