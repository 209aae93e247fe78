"""The beginning of training: makes the directory, data, model and training loop of a run from its settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import cast

import torch
from torch import nn

from transduce.compute.cluster import plain_workers
from transduce.compute.crew import ALONE, Crew
from transduce.compute.device import choose_device
from transduce.compute.memory import keep_freed_memory
from transduce.compute.precision import autocast, bound_kernel_cache
from transduce.core.errors import UserError
from transduce.core.protocols import Carry, ChecksPairs, TakesVectors, can
from transduce.core.registry import model_name, service
from transduce.core.text_files import read_json
from transduce.data.batching import Place
from transduce.data.pairs import Pairs
from transduce.data.tokenizers.base import Tokenizer
from transduce.objectives.base import Trainable
from transduce.runs.ancestry import check_parents, parents
from transduce.runs.checkpoints import Rank, best_rank
from transduce.runs.layout import CHECKPOINTS, CONFIG, METRICS, STATE
from transduce.runs.lock import locked
from transduce.runs.optimizer_state import kept_statistics
from transduce.runs.replacement import replacing
from transduce.runs.training_state import State, load_carry, load_training, resume_point
from transduce.training.budget import CLOCKS
from transduce.training.callbacks import Callback, Finished, ForgetReplaced, JsonLines, PaceAdvice, Started
from transduce.training.changes import changed_settings, other_measure, reorders
from transduce.training.counted import Counted, CountedInParts, Counts
from transduce.training.counting import Counting, count_parts
from transduce.training.course import Course
from transduce.training.job import Job
from transduce.training.keeper import Keeper
from transduce.training.loop import Loop
from transduce.training.optimization import freeze, optimizer_of
from transduce.training.plan import Plan, plan_run
from transduce.training.settings import Settings, read_settings
from transduce.training.updating import Updater
from transduce.training.validation import judge_of
from transduce.training.validation_schedule import Validations


class RunExistsError(FileExistsError):
    """A new run cannot be written, because its directory already holds a run. In training, it means that neither
    ``resume`` nor ``overwrite`` was set.
    """

    def __init__(self, run: Path) -> None:
        super().__init__(
            f"{run} already holds a run: go on with it (--resume), delete it (--overwrite), or choose another "
            "directory (--out)"
        )


def train(job: Job, callbacks: Sequence[Callback] = (), device: str = "auto", crew: Crew = ALONE) -> Finished:
    """Does a job of training. Returns a ``Finished``, which says how training ended. If a signal ends training early,
    its name is the reason.

    Checks the settings, the data files and their fit before training begins. If the ``crew`` has several processes, all
    of them call this function with the same arguments. The first one decides the settings, prepares the data and writes
    the run. Raises UserError for a counted model, or for ``streams``, with several processes.

    Raises RunExistsError if the directory holds a run that the job neither resumes nor overwrites. Raises UserError if
    another training runs there, or if the data have changed since the checkpoint (``Job.resume``).
    """
    run, settings = job.run, read_settings(job.table)
    bound_kernel_cache()
    keep_freed_memory()
    where = choose_device(crew.device(device))
    with _claimed(job, settings) if crew.first else nullcontext():
        if job.pairs is not None and crew.first:
            job.pairs.write(run)
        point = resume_point(run / CHECKPOINTS) if job.resume and crew.first else None
        plan = plan_run(job, settings, point, where) if crew.first else None
        table, goes_on = crew.share((plan.table, point is not None) if plan else (job.table, False))
        if plan is None:  # the first process has prepared the data
            point = run / CHECKPOINTS / "last" if goes_on else None
            plan = plan_run(job.with_table(table), read_settings(table), point, where)
        check_crew(plan.settings, crew)
        torch.manual_seed(plan.settings.training.seed)
        model = cast(nn.Module, plan.settings.model())
        every = [JsonLines(run / METRICS), ForgetReplaced(run), *callbacks] if crew.first else []
        init = plan.settings.init
        if every and init is not None and init.keep_old is not None:
            every = [service("loss of old data")(init, run, every), *every]
        if every and plan.settings.training.aligner:
            every = [service("own aligner")(plan.settings, run, every), *every]
        if can(type(model), Counted):
            done = point is not None and not plan.data_change and not changed_settings(point, plan.table)
            return _counted(run, plan, every) if done else _counting(model, run, plan, every)()
        finished = _loop(model, run, plan, point, every, crew)()
        crew.wait()  # until the first process has written everything
        return finished


@contextmanager
def _claimed(job: Job, settings: Settings) -> Iterator[None]:
    """A context that holds the lock of the job's directory. If a run will be overwritten, it is first moved away. It is
    moved back at the end if the new run has no checkpoint.

    Raises RunExistsError if the directory holds a run that the job neither resumes nor overwrites. Before it
    overwrites a run, it raises UserError if the new run needs that run. It raises FileNotFoundError if another run that
    the new one needs is missing.
    """
    run, exists = job.run, (job.run / CONFIG).exists()
    if exists and not (job.resume or job.overwrite):
        raise RunExistsError(run)
    if exists and job.overwrite:
        check_parents(parents(settings.init, settings.distillation), [run])
    with replacing(run) if exists and job.overwrite else nullcontext(), locked(run, "training"):
        yield


def check_crew(settings: Settings, crew: Crew) -> None:
    """Raises UserError for a model or a setting that several processes cannot train together."""
    if not crew.several:
        return
    if can(model := settings.model_class, Counted):
        raise UserError(f"this {model_name(model)} model is counted by one process: train it without torchrun")
    if settings.training.streams:
        raise UserError("training.streams: one process reads a text as one document; train without torchrun")


def _loop(
    model: nn.Module, run: Path, plan: Plan, point: Path | None, callbacks: list[Callback], crew: Crew = ALONE
) -> Loop:
    """Makes the directory a run, calls ``on_start`` of the callbacks, and returns the training loop. The caller starts
    the loop.

    ``point`` is the checkpoint to continue from; None begins at update 0. The ``model`` changes in place. It gets the
    weights of the checkpoint, if there is one. Otherwise it inherits weights from another run, its counted parts are
    counted, and its embeddings get the word vectors of files. The parameters of ``training.freeze`` are frozen,
    and also those that ``training.adapter`` does not train.
    """
    training = plan.settings.training
    counted = count_parts(model, plan.prepared.train, training.gain, plan.same_counts()) if point is None else ()
    filled = () if point is not None else fill_tables(model, plan.prepared.source_tokenizer)
    inherited = plan.hand_over(model)
    frozen = freeze(model, training.freeze)
    model.to(plan.where)
    trainable = Trainable(model, plan.objective)
    optimizer, adapted = optimizer_of(model, training.optimizer, training.adapter, inherited)
    start = NEW if point is None else _resumed(point, plan, model, optimizer)
    splits = {"train": plan.prepared.train} | ({"valid": plan.prepared.valid} if plan.prepared.valid else {})
    own = plan.settings.objective
    left_out = own.check(model, splits) if isinstance(own, ChecksPairs) else ()
    origins = (*(inherited.lines() if inherited else ()), *plan.teacher_report, *start.report)
    computing = autocast(plan.chosen.precision, plan.where)
    judge = judge_of(trainable, plan.settings, plan.prepared, plan.cache, computing, crew)
    changes = changed_settings(point, plan.table)
    data = (*plan.data_report, *left_out, *(judge.report if judge else ()))
    report = (*data, *counted, *filled, *origins, *frozen, *adapted, *plan.precision, *changes)
    feed = plan.feed
    parameters = sum(p.numel() for p in model.parameters())
    crew.share_weights(model)
    sharded = None
    if crew.several and training.parallel == "fsdp":
        sharded = service("sharded training")(trainable, optimizer, crew)
    # only after the checkpoint and the metrics were checked, so that a mistake does not spoil the run's own settings
    if crew.first:
        plan.create(run, start.state.step, inherited)
    started = start.state.step, str(plan.where), training.precision, report, start.state.events, training.budget
    _start(callbacks, Started(run, parameters, *started))
    course = Course(training, feed, start.state, callbacks, crew.clock(CLOCKS[training.clock]))
    course.callbacks = (*callbacks, PaceAdvice(training.budget, start.state.seconds, course.notice))
    updater = Updater(trainable, optimizer, computing, training.clip, start.carry, crew, sharded)
    keeper = Keeper(run, course, updater, plan.texts, start.best)
    return Loop(course, updater, keeper, Validations(course, keeper, judge))


@dataclass(frozen=True)
class Start:
    """Where training begins: its ``state``, the value that the objective carries, and the rank of the checkpoint best.
    ``report`` are lines for people about what does not go on.
    """

    state: State = field(default_factory=State)
    carry: Carry = None
    best: Rank | None = None
    report: tuple[str, ...] = ()


NEW = Start()


def _resumed(point: Path, plan: Plan, model: nn.Module, optimizer: torch.optim.Optimizer) -> Start:
    """Where training goes on from the checkpoint ``point``. Loads its weights and moments, in place."""
    training = plan.settings.training
    kept = {} if training.adapter else kept_statistics(training.optimizer, model)
    state = load_training(point, model, optimizer, kept)
    carry, report = load_carry(point, plan.where), other_measure(point, plan.table)
    changed = frozenset() if plan.data_change is None else plan.data_change.splits
    best = best_rank(point.parent)
    if report or "valid" in changed:  # ranks of other validations cannot be compared
        state, best = replace(state, best=None, validations=(), curve=(), stale=0), None
    if "train" in changed or reorders(point, plan.table):
        state, carry = replace(state, place=Place(state.place.epoch + 1)), None
        report = (*report, f"epoch {state.place.epoch + 1} begins: the order of the examples is another")
    return Start(state, carry, best if state.step else None, report)


def _counting(model: nn.Module, run: Path, plan: Plan, callbacks: list[Callback]) -> Counting:
    """Makes the directory a run, calls ``on_start`` of the callbacks, and returns the ``Counting``. The caller starts
    it. Counting always begins at pass 0, also on a resume.
    """
    pairs, exactly = plan.prepared.train, nullcontext
    model.to(plan.where)
    judge = judge_of(Trainable(model, plan.objective), plan.settings, plan.prepared, plan.cache, exactly)
    tuned = plan.settings.tuning is not None
    tuner = service("tuning")(model, plan.settings, plan.prepared, plan.cache) if tuned else None
    counts, here = _counts(cast(Counted, model), pairs, plan.settings.data.cluster)
    init = plan.settings.init
    whose = () if init is None else (f"has the vocabularies of {init.run} ({init.vocabulary}), and nothing else of it",)
    plan.create(run, 0, None)
    report = (*plan.data_report, *(judge.report if judge else ()), *whose, *here, *counts.report)
    _start(callbacks, Started(run, 0, 0, str(plan.where), "float32", report, budget=plan.settings.training.budget))
    return Counting(model, counts, plan.settings.training, judge, tuner, callbacks, run, plan.texts)


def _counts(model: Counted, pairs: Pairs, cluster: str | None) -> tuple[Counts, tuple[str, ...]]:
    """The counts of the pairs, by the workers of the ``cluster`` if the counting can be divided. If not, a line for
    people says so.
    """
    if cluster is None:
        return model.counts(pairs), ()
    if can(type(model), CountedInParts):
        divided = cast(CountedInParts, model).counts_in_parts(pairs, partial(plain_workers, cluster))
        if divided is not None:
            return divided, ()
    return model.counts(pairs), (f"counted on this machine: {cluster} only encodes the data",)


def _counted(run: Path, plan: Plan, callbacks: list[Callback]) -> Finished:
    """Resumes a counted model with unchanged settings. It does not count, because that would give the same counts.
    Calls ``on_start`` and ``on_finish`` of the callbacks, and returns a ``Finished`` with the passes and the seconds of
    the checkpoint ``last``.
    """
    about = read_json(run / CHECKPOINTS / "last" / STATE)
    _start(callbacks, Started(run, 0, about["step"], str(plan.where), "float32", ("counted already",)))
    finished = Finished(run, "budget", about["step"], about["step"], about["seconds"])
    for callback in callbacks:
        callback.on_finish(finished)
    return finished


def _start(callbacks: list[Callback], started: Started) -> None:
    for callback in callbacks:
        callback.on_start(started)


def fill_tables(model: nn.Module, tokenizer: Tokenizer) -> tuple[str, ...]:
    """Fills the embeddings that take word vectors from a file. Returns a line for people for each file."""
    tables = [cast(TakesVectors, module) for module in model.modules() if can(type(module), TakesVectors)]
    if not any(table.file is not None for table in tables):
        return ()
    lines: tuple[str, ...] = service("word vectors")(model, tokenizer)
    return lines
