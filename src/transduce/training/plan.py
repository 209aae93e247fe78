"""The plan of a training: all decisions before it begins."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from torch import nn

from transduce.compute.precision import PrecisionChoice, choose_precision
from transduce.core import config
from transduce.core.config.user_data import borrowed
from transduce.core.errors import UserError
from transduce.core.files import current_folder
from transduce.core.protocols import AnyObjective, ComparesTexts
from transduce.core.registry import service
from transduce.data.base import Feed
from transduce.data.batching import Batches
from transduce.data.fingerprints import DataChange, as_json
from transduce.data.notices import told
from transduce.data.preparation import Prepared, Tokenizers, prepare
from transduce.data.settings import Data
from transduce.data.streams import StreamBatches
from transduce.models.compatibility import check_words
from transduce.objectives.cross_entropy import CrossEntropy
from transduce.runs.ancestry import Init
from transduce.runs.layout import CONFIG, FINGERPRINTS, TOKENIZERS
from transduce.runs.run import Run, cache_folder
from transduce.training.augmentation import check_augmentation, for_text
from transduce.training.changes import changed_data
from transduce.training.distillation import Teacher
from transduce.training.inheritance import Ancestor, Inherited, Predecessor
from transduce.training.job import Job
from transduce.training.kept_vocabulary import check_writable
from transduce.training.settings import Settings, read_settings
from transduce.training.sizes import choose_settings
from transduce.training.targets import SEARCHES, fit_searches


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
    predecessor: Ancestor | None
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
    def objective(self) -> AnyObjective:
        """The objective of the settings. If it compares texts, it gets the target's decoder. If there is a teacher, it
        becomes a part of a ``Distilled``.
        """
        own = self.settings.objective
        if isinstance(own, ComparesTexts):
            own = own.reading(self.prepared.target_tokenizer.decode)
        if self.teacher is None:
            return own
        return self.teacher.taught(cast(CrossEntropy, own), self.prepared.train, self.settings.training)

    @property
    def feed(self) -> Feed:
        """The batches of the training set: streams of the text if the settings have ``streams``, otherwise pairs."""
        training, pairs = self.settings.training, self.prepared.train
        if training.streams is not None:
            return StreamBatches(pairs.target, training.streams)
        batches = Batches(pairs, training.batching, training.seed, weights=self.prepared.weights)
        if not any(map(for_text, training.augmentations)):
            return batches
        given = training.augmentations, self.prepared.tokenizers, self.settings.data.lines, training.seed
        feed: Feed = service("varied texts")(batches, *given)
        return feed

    @property
    def teacher_report(self) -> list[str]:
        """Lines for people about the teacher; empty without distillation."""
        own, training = cast(CrossEntropy, self.settings.objective), self.settings.training
        return self.teacher.lines(own, self.prepared.train, training) if self.teacher else []

    def hand_over(self, model: nn.Module) -> Inherited | None:
        """Copies the weights that fit from the runs to start from into the model, in place. Returns the report of the
        copied weights. Returns None if there is no such run, or if training continues from a checkpoint. Raises
        UserError if no weights fit.
        """
        if self.predecessor is None:
            return None
        return self.predecessor.hand_over(model, self.table["model"], self.prepared.tokenizers)

    def same_counts(self) -> nn.Module | None:
        """The model of the run to start from, if it has counted the pairs of this run as this run would."""
        return None if self.predecessor is None else self.predecessor.same_counts(self.table, self.prepared)

    def create(self, run: Path, step: int, inherited: Inherited | None) -> None:
        """Makes the directory ``run`` a run, or updates the existing run there. Training continues after the update
        ``step``. ``inherited``, if given, is written as init.json.
        """
        about = None if inherited is None else inherited.as_json()
        changed = None if self.data_change is None else self.data_change.text
        Run.create(run, self.table, self.prepared.tokenizers, step, str(self.where), about, changed)


def plan_run(job: Job, settings: Settings, point: Path | None, where: torch.device) -> Plan:
    """Makes all decisions before training. Loads the teacher and the run to start from, and reads and encodes the data.
    Chooses the settings for the size of the data, and the precision. Checks that the settings fit the data.

    ``settings`` are those of the job as objects. ``point`` is the checkpoint to continue from, or None. If it is given,
    the run that this one started from is not read. If the directory is already a run, it keeps its tokenizers. Raises
    UserError if the data have changed since the checkpoint, unless the job allows it.
    """
    run, table, data = job.run, job.table, settings.data
    predecessor = _predecessor(settings.init) if settings.init and point is None else None
    units = predecessor.units_for(data, table["data"]["units"]) if predecessor else None
    if point is not None and settings.init and settings.init.keeps_vocabulary:  # this run has the other run's units
        units = config.read(point / CONFIG)["data"]["units"]
    if units is None and settings.training.robust and not settings.distillation and not (run / CONFIG).exists():
        units = service("robust units")(table["data"]["units"])
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
        if settings.init is not None and settings.init.keep_old:
            temperature = settings.training.batching.temperature
            table = service("with old pairs")(table, data, cache, settings.init, temperature)
            data = config.build(table["data"], Data, path="data")
            prepared = prepare(data, cache, prepared.tokenizers)
    else:
        prepared = prepare(data, cache, taught)
        if taught is not None and settings.distillation is not None:
            check_writable(prepared, settings.distillation.teacher)
    data_change = changed_data(point, prepared, data, cache)
    if data_change and not job.new_data:
        raise UserError(
            f"{data_change}. Restore them, go on with the new ones (--resume --new-data), or begin another run from "
            f"this one (--init {run})"
        )
    table, choice = choose_settings(table, job.sizes, len(prepared.train))
    if choice:
        settings = read_settings(table)
    table, unwritable = fit_searches(table, settings, prepared, where, SEARCHES if point else job.merged.fixed)
    chosen = choose_precision(settings.training.precision, where)
    table = config.assign(table, "training.precision", chosen.precision)
    settings, table = config.build_and_resolve(table, Settings, prepared.facts)
    check_words(table["model"], prepared.facts)
    training, kinds = settings.training, settings.training.augmentations
    check_augmentation(kinds, prepared.tokenizers.source)
    varied = ()
    if any(map(for_text, kinds)):
        survey = service("check varied texts")
        varied = survey(kinds, prepared.tokenizers, settings.data.lines, prepared.train, training.seed)
    if teacher:
        teacher.check(prepared.tokenizers)
    notes = (*job.merged.notes, *choice, *unwritable, *varied)
    return Plan(table, settings, chosen, prepared, cache, where, predecessor, teacher, notes, data_change)


def _predecessor(init: Init) -> Ancestor:
    return service("parts to start from")(init.parts) if init.parts else Predecessor(init)
