"""The beginning of training: makes the directory, data, model and training loop of a run from its settings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import torch

from transduce.compute.cluster import plain_workers
from transduce.compute.crew import ALONE, Crew
from transduce.compute.device import choose_device
from transduce.compute.memory import keep_freed_memory
from transduce.compute.precision import PrecisionChoice, autocast, bound_kernel_cache, choose_precision
from transduce.core import config
from transduce.core.config.user_data import Merged, borrowed
from transduce.core.errors import UserError
from transduce.core.files import current_folder
from transduce.core.names import model_name, service
from transduce.core.protocols import ChecksPairs, ComparesTexts, Objective, TakesVectors, can
from transduce.core.text_files import read_json
from transduce.data.base import Feed
from transduce.data.batching import Batches, Place
from transduce.data.fingerprints import DataChange, as_json
from transduce.data.notices import told
from transduce.data.pairs import Pairs
from transduce.data.preparation import Prepared, Tokenizers, prepare
from transduce.data.settings import Data
from transduce.data.streams import StreamBatches
from transduce.data.tokenizers.base import Tokenizer
from transduce.models.compatibility import check_words
from transduce.objectives.base import Trainable
from transduce.runs.ancestry import Init, check_parents, parents
from transduce.runs.checkpoints import best_rank
from transduce.runs.layout import CHECKPOINTS, CONFIG, FINGERPRINTS, METRICS, STATE, TOKENIZERS
from transduce.runs.lock import locked
from transduce.runs.optimizer_state import kept_statistics
from transduce.runs.own_pairs import OwnPairs
from transduce.runs.replacement import replacing
from transduce.runs.run import Run, cache_folder
from transduce.runs.training_state import State, load_carry, load_training, resume_point
from transduce.training.augmentation import check_augmentation
from transduce.training.budget import CLOCKS
from transduce.training.callbacks import Callback, Finished, ForgetReplaced, JsonLines, PaceAdvice, Started
from transduce.training.changes import changed_data, changed_settings, other_measure, reorders
from transduce.training.counted import Counted, CountedInParts, Counts
from transduce.training.counting import Counting, count_parts
from transduce.training.course import Course
from transduce.training.distillation import Teacher
from transduce.training.inheritance import Inheritance, Predecessor
from transduce.training.keeper import Keeper
from transduce.training.kept_vocabulary import check_writable
from transduce.training.loop import Loop
from transduce.training.optimization import freeze
from transduce.training.settings import Settings, read_settings
from transduce.training.sizes import Alternative, choose_settings
from transduce.training.targets import SEARCHES, fit_searches
from transduce.training.transfer import Parts, Transfer
from transduce.training.updating import Updater
from transduce.training.validation import judge_of
from transduce.training.validations import Validations

NEW_DATA: Final = "new-data"
Resume = bool | Literal["new-data"]


class RunExistsError(FileExistsError):
    """A new run cannot be written, because its directory already holds a run. In training, it means that neither
    ``resume`` nor ``overwrite`` was set.
    """

    def __init__(self, run: Path) -> None:
        super().__init__(
            f"{run} already holds a run: go on with it (--resume), delete it (--overwrite), or choose another "
            "directory (--out)"
        )


def train(
    table: config.Table,
    run: Path,
    resume: Resume = False,
    callbacks: Sequence[Callback] = (),
    device: str = "auto",
    overwrite: bool = False,
    pairs: OwnPairs | None = None,
    sizes: Sequence[Alternative] = (),
    crew: Crew = ALONE,
    merged: Merged | None = None,
) -> Finished:
    """Trains the run that ``table`` (its settings) describes, in the directory ``run``. Returns a ``Finished``, which
    says how training ended. If a signal ends training early, its name is the reason.

    Checks the settings, the data files and their fit before training begins. ``resume`` continues from the run's last
    checkpoint, or begins if there is none. A counted model has no state to continue from. It is counted again if its
    settings changed; otherwise ``resume`` is a no-op. If the data have changed since the checkpoint, UserError is
    raised, unless ``resume`` is "new-data": then an epoch begins with them. ``overwrite`` begins again, and deletes the
    earlier run once the new one has a checkpoint. ``pairs`` from Python are written into the run's folder ``data``.
    ``sizes`` are other settings for few training pairs, which ``choose_settings`` reads. ``merged`` has lines for
    people about the settings, and the keys that the user has set.

    If the ``crew`` has several processes, all of them call this function with the same arguments. The first one decides
    the settings, prepares the data and writes the run. Raises UserError for a counted model, or for ``streams``, with
    several processes.

    Raises RunExistsError if the directory holds a run and neither option is set, and UserError if another training runs
    there.
    """
    settings = read_settings(table)
    bound_kernel_cache()
    keep_freed_memory()
    where = choose_device(crew.device(device))
    with _claimed(settings, run, resume, overwrite) if crew.first else nullcontext():
        if pairs is not None and crew.first:
            pairs.write(run)
        point = resume_point(run / CHECKPOINTS) if resume and crew.first else None
        plan = plan_run(table, settings, run, point, where, sizes, merged, resume == NEW_DATA) if crew.first else None
        table, goes_on = crew.share((plan.table, point is not None) if plan else (table, False))
        if plan is None:  # the first process has prepared the data
            point = run / CHECKPOINTS / "last" if goes_on else None
            plan = plan_run(table, read_settings(table), run, point, where, (), None, resume == NEW_DATA)
        check_crew(plan.settings, crew)
        torch.manual_seed(plan.settings.training.seed)
        model: Any = plan.settings.model()
        every = [JsonLines(run / METRICS), ForgetReplaced(run), *callbacks] if crew.first else []
        if can(type(model), Counted):
            done = point is not None and not plan.data_change and not changed_settings(point, plan.table)
            return _counted(run, plan, every) if done else _counting(model, run, plan, every)()
        finished = _loop(model, run, plan, point, every, crew)()
        crew.wait()  # until the first process has written everything
        return finished


@contextmanager
def _claimed(settings: Settings, run: Path, resume: Resume, overwrite: bool) -> Iterator[None]:
    """A context that holds the directory's lock. If a run will be overwritten, it is first moved away. It is moved back
    at the end if the new run has no checkpoint.

    Raises RunExistsError if the directory holds a run and neither ``resume`` nor ``overwrite`` is set. Before it
    overwrites a run, it raises UserError if the new run needs that run. It raises FileNotFoundError if another run that
    the new one needs is missing.
    """
    exists = (run / CONFIG).exists()
    if exists and not (resume or overwrite):
        raise RunExistsError(run)
    if exists and overwrite:
        check_parents(parents(settings.init, settings.distillation), [run])
    with replacing(run) if exists and overwrite else nullcontext(), locked(run, "training"):
        yield


def check_crew(settings: Settings, crew: Crew) -> None:
    """Raises UserError for a model or a setting that several processes cannot train together."""
    if not crew.several:
        return
    model: Any = getattr(settings.model, "constructor", settings.model)
    if can(model, Counted):
        raise UserError(f"this {model_name(model)} model is counted by one process: train it without torchrun")
    if settings.training.streams:
        raise UserError("training.streams: one process reads a text as one document; train without torchrun")


def _loop(model: Any, run: Path, plan: Plan, point: Path | None, callbacks: list[Callback], crew: Crew = ALONE) -> Loop:
    """Makes the directory a run, calls ``on_start`` of the callbacks, and returns the training loop. The caller starts
    the loop.

    ``point`` is the checkpoint to continue from; None begins at update 0. The ``model`` changes in place. It gets the
    weights of the checkpoint, if there is one. Otherwise it inherits weights from another run, its counted parts are
    counted, and its embeddings get the word vectors of files. The parameters of ``training.freeze`` are frozen.
    """
    training = plan.settings.training
    counted = count_parts(model, plan.prepared.train, training.gain) if point is None else ()
    filled = () if point is not None else fill_tables(model, plan.prepared.source_tokenizer)
    inherited = plan.hand_over(model)
    frozen = freeze(model, training.freeze)
    model.to(plan.where)
    trainable = Trainable(model, plan.objective)
    optimizer = training.optimizer(p for p in model.parameters() if p.is_floating_point())  # counts are integers
    kept = kept_statistics(training.optimizer, model)
    state = State() if point is None else load_training(point, model, optimizer, kept)
    measure = () if point is None else other_measure(point, plan.table)
    changed = frozenset() if plan.data_change is None else plan.data_change.splits
    other_judge = bool(measure) or "valid" in changed
    if other_judge:
        state = replace(state, best=None, validations=(), curve=(), stale=0)
    carry = None if point is None else load_carry(point, plan.where)
    if "train" in changed or (point is not None and reorders(point, plan.table)):
        state, carry = replace(state, place=Place(state.place.epoch + 1)), None
        measure = (*measure, f"epoch {state.place.epoch + 1} begins: the order of the examples is another")
    splits = {"train": plan.prepared.train} | ({"valid": plan.prepared.valid} if plan.prepared.valid else {})
    own: Any = plan.settings.objective
    left_out = own.check(model, splits) if isinstance(own, ChecksPairs) else ()
    origins = (*(inherited.lines() if inherited else ()), *plan.teacher_report, *measure)
    computing = autocast(plan.chosen.precision, plan.where)
    judge = judge_of(trainable, plan.settings, plan.prepared, plan.cache, computing, crew)
    changes = changed_settings(point, plan.table)
    data = (*plan.data_report, *left_out, *(judge.report if judge else ()))
    report = (*data, *counted, *filled, *origins, *frozen, *plan.precision, *changes)
    feed = plan.feed
    parameters = sum(p.numel() for p in model.parameters())
    crew.share_weights(model)
    sharded = None
    if crew.several and training.parallel == "fsdp":
        from transduce.training.sharded import ShardedTrainable  # imported here, because it takes half a second

        sharded = ShardedTrainable(trainable, optimizer, crew)
    # only after the checkpoint and the metrics were checked, so that a mistake does not spoil the run's own settings
    if crew.first:
        plan.create(run, state.step, inherited)
    _start(callbacks, Started(run, parameters, state.step, str(plan.where), training.precision, report, state.events))
    course = Course(training, feed, state, callbacks, crew.clock(CLOCKS[training.clock]))
    course.callbacks = (*callbacks, PaceAdvice(training.budget, course.state.seconds, course.notice))
    updater = Updater(trainable, optimizer, computing, training.clip, carry, crew, sharded)
    best = None if other_judge or not state.step else best_rank(run / CHECKPOINTS)  # of the same validations
    keeper = Keeper(run, course, updater, plan.texts, best)
    return Loop(course, updater, keeper, Validations(course, keeper, judge))


def _counting(model: Any, run: Path, plan: Plan, callbacks: list[Callback]) -> Counting:
    """Makes the directory a run, calls ``on_start`` of the callbacks, and returns the ``Counting``. The caller starts
    it. Counting always begins at pass 0, also on a resume.
    """
    pairs, exactly = plan.prepared.train, nullcontext
    model.to(plan.where)
    judge = judge_of(Trainable(model, plan.objective), plan.settings, plan.prepared, plan.cache, exactly)
    tuned = plan.settings.tuning is not None
    tuner = service("tuning")(model, plan.settings, plan.prepared, plan.cache) if tuned else None
    counts, here = _counts(model, pairs, plan.settings.data.cluster)
    init = plan.settings.init
    whose = () if init is None else (f"has the vocabularies of {init.run} ({init.vocabulary}), and nothing else of it",)
    plan.create(run, 0, None)
    report = (*plan.data_report, *(judge.report if judge else ()), *whose, *here, *counts.report)
    _start(callbacks, Started(run, 0, 0, str(plan.where), "float32", report))
    return Counting(model, counts, plan.settings.training, judge, tuner, callbacks, run, plan.texts)


def _counts(model: Any, pairs: Pairs, cluster: str | None) -> tuple[Counts, tuple[str, ...]]:
    """The counts of the pairs, by the workers of the ``cluster`` if the counting can be divided. If not, a line for
    people says so.
    """
    if cluster is None:
        return model.counts(pairs), ()
    if can(type(model), CountedInParts):
        divided: Counts | None = model.counts_in_parts(pairs, partial(plain_workers, cluster))
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


# ------------------------------------------------------------------------ plan


@dataclass(frozen=True)
class Plan:
    """All decisions before training.

    ``table`` has the settings with all defaults, and ``settings`` the same as objects. ``chosen`` is the precision,
    ``cache`` the folder of the prepared data, and ``where`` the device. ``predecessor`` has the run or the runs to
    start from, and ``teacher`` is the model to learn from. Either is None if the settings name none. The predecessor is
    None also if training continues from a checkpoint. ``notes`` are lines for people about the settings. The last of
    them tells if other settings were chosen for few training pairs. ``data_change`` is the change of the data since the
    checkpoint.
    """

    table: config.Table
    settings: Settings
    chosen: PrecisionChoice
    prepared: Prepared
    cache: Path
    where: torch.device
    predecessor: Predecessor | Parts | None
    teacher: Teacher | None
    notes: tuple[str, ...]
    data_change: DataChange | None = None

    @property
    def data_report(self) -> tuple[str, ...]:
        """Lines for people: the report on the data with notices about the user's files, then the ``notes``. If the
        training set is the user's and another split comes from an origin, a line between them says so.
        """
        report = told(self.settings.data, self.prepared.report, self.prepared.tokenizers)
        changed = () if self.data_change is None else (str(self.data_change),)
        return (*report, *borrowed(self.table["data"]), *self.notes, *changed)

    @property
    def texts(self) -> dict[str, str]:
        """The texts about settings and data that the checkpoint ``last`` keeps, by file name."""
        return {CONFIG: config.write(self.table), FINGERPRINTS: json.dumps(as_json(self.prepared.fingerprints))}

    @property
    def precision(self) -> tuple[str, ...]:
        """A line that says why "auto" chose the precision. Empty if there is no reason: the settings name the
        precision, or "auto" chose float32 on a GPU or mps.
        """
        return (f"{self.chosen.precision} was chosen: {self.chosen.reason}",) if self.chosen.reason else ()

    @property
    def objective(self) -> Objective[Any]:
        """The objective of the settings. If it compares texts, it gets the target's decoder. If there is a teacher, it
        becomes a part of a ``Distilled``.
        """
        own: Any = self.settings.objective
        if isinstance(own, ComparesTexts):
            own = own.reading(self.prepared.target_tokenizer.decode)
        return self.teacher.taught(own, self.prepared.train, self.settings.training) if self.teacher else own

    @property
    def feed(self) -> Feed:
        """The batches of the training set: streams of the text if the settings have ``streams``, otherwise pairs."""
        training, pairs = self.settings.training, self.prepared.train
        if training.streams is None:
            return Batches(pairs, training.batching, training.seed, weights=self.prepared.weights)
        return StreamBatches(pairs.target, training.streams)

    @property
    def teacher_report(self) -> list[str]:
        """Lines for people about the teacher; empty without distillation."""
        own: Any = self.settings.objective
        return self.teacher.lines(own, self.prepared.train, self.settings.training) if self.teacher else []

    def hand_over(self, model: Any) -> Inheritance | Transfer | None:
        """Copies the weights that fit from the runs to start from into the model, in place. Returns the report of the
        copied weights. Returns None if there is no such run, or if training continues from a checkpoint. Raises
        UserError if no weights fit.
        """
        if self.predecessor is None:
            return None
        return self.predecessor.hand_over(model, self.table["model"], self.prepared.tokenizers)

    def create(self, run: Path, step: int, inherited: Inheritance | Transfer | None) -> None:
        """Makes the directory ``run`` a run, or updates the existing run there. Training continues after the update
        ``step``. ``inherited``, if given, is written as init.json.
        """
        about = None if inherited is None else inherited.as_json()
        changed = None if self.data_change is None else self.data_change.text
        Run.create(run, self.table, self.prepared.tokenizers, step, str(self.where), about, changed)


def plan_run(
    table: config.Table,
    settings: Settings,
    run: Path,
    point: Path | None,
    where: torch.device,
    sizes: Sequence[Alternative],
    merged: Merged | None = None,
    new_data: bool = False,
) -> Plan:
    """Makes all decisions before training. Loads the teacher and the run to start from, and reads and encodes the data.
    Chooses the settings for the size of the data, and the precision. Checks that the settings fit the data.

    ``point`` is the checkpoint to continue from, or None. If it is given, the run that this one started from is not
    read. If the directory is already a run, it keeps its tokenizers. Raises UserError if the data have changed since
    the checkpoint, unless ``new_data`` is True. ``merged`` has lines for people about the settings, and the keys of
    settings that the user has set: the data change none of them.
    """
    merged = merged or Merged(table)
    data = settings.data
    predecessor = _predecessor(settings.init) if settings.init and point is None else None
    units = predecessor.units_for(data, table["data"]["units"]) if predecessor else None
    if point is not None and settings.init and settings.init.keeps_vocabulary:  # this run has the other run's units
        units = config.read(point / CONFIG)["data"]["units"]
    if units is not None:
        table = {**table, "data": {**table["data"], "units": units}}
        data = config.build(table["data"], Data, path="data")
    teacher = Teacher(settings.distillation, where) if settings.distillation else None
    cache = cache_folder(data, run)
    taught = teacher.vocabularies(data) if teacher else None
    if (run / CONFIG).exists():
        prepared = prepare(data, cache, Tokenizers.load(current_folder(run / TOKENIZERS)))
    elif predecessor:
        prepared = predecessor.prepare(data, cache)
    else:
        prepared = prepare(data, cache, taught)
        if taught is not None and settings.distillation is not None:
            check_writable(prepared, settings.distillation.teacher)
    data_change = changed_data(point, prepared, data, cache)
    if data_change and not new_data:
        raise UserError(
            f"{data_change}. Restore them, go on with the new ones (--resume --new-data), or begin another run from "
            f"this one (--init {run})"
        )
    table, choice = choose_settings(table, sizes, len(prepared.train))
    if choice:
        settings = read_settings(table)
    table, unwritable = fit_searches(table, settings, prepared, where, SEARCHES if point else merged.fixed)
    chosen = choose_precision(settings.training.precision, where)
    table = config.assign(table, "training.precision", chosen.precision)
    settings, table = config.build_and_resolve(table, Settings, prepared.facts)
    check_words(table["model"], prepared.facts)
    check_augmentation(settings.training.augmentation, prepared.tokenizers.source.signal)
    if teacher:
        teacher.check(prepared.tokenizers)
    notes = (*merged.notes, *choice, *unwritable)
    return Plan(table, settings, chosen, prepared, cache, where, predecessor, teacher, notes, data_change)


def _predecessor(init: Init) -> Predecessor | Parts:
    return Parts(init.parts) if init.parts else Predecessor(init)


def fill_tables(model: Any, tokenizer: Tokenizer) -> tuple[str, ...]:
    """Fills the embeddings that take word vectors from a file. Returns a line for people for each file."""
    if not any(can(type(module), TakesVectors) and module.file is not None for module in model.modules()):
        return ()
    lines: tuple[str, ...] = service("word vectors")(model, tokenizer)
    return lines
