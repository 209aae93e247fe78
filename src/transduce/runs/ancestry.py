"""The runs that a run comes from: the one whose weights it started with, and those that it learns from."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from transduce.core import config
from transduce.core.errors import UserError
from transduce.runs.layout import Checkpoint, find_weights, members


@dataclass(frozen=True)
class Part:
    """The run that one part of a new model starts from (an entry of ``init.parts``).

    ``into`` is the dotted name of a module of the new model, such as "encoder" or "decoder.language". ``part`` is the
    module of that run whose weights it takes; by default the module of the same name. Parameters start with the weights
    of the ``checkpoint`` if their names in the two modules and their shapes are the same.

    ``vocabulary`` decides about one side of the data: the source if ``into`` begins with "encoder", otherwise the
    target. "keep" uses that run's unit and vocabulary for this side, and ignores ``data.units`` there. "extend" also
    adds the tokens that only the new data has. "own" learns the vocabulary by ``data.units``. If ``part`` begins with
    "encoder", the run's source vocabulary is taken, otherwise its target vocabulary. If ``data.units.joint`` is set, a
    vocabulary that is kept or extended is used for both sides. Raises UserError if ``into`` is empty.
    """

    run: Path
    into: str
    part: str | None = None
    checkpoint: Checkpoint = "best"
    vocabulary: Literal["keep", "extend", "own"] = "keep"

    def __post_init__(self) -> None:
        if not self.into:
            raise UserError('init.parts.into is empty: the name of a module was expected, such as "encoder"')

    @property
    def taken(self) -> str:
        """The name of the module in the other run."""
        return self.into if self.part is None else self.part


@dataclass(frozen=True)
class Init:
    """The run, or the runs, that a new run starts from (``[init]``). Parameters of the same name and shape start with
    the weights of the ``checkpoint`` of ``run``.

    ``parts`` take the place of ``run`` if parts of the new model start from different runs. For example, the encoder
    starts from a masked language model, and the decoder from a language model. A parameter that two parts share starts
    with the weights of the later one. Set either ``run`` or ``parts``; anything else raises UserError. ``checkpoint``
    and ``vocabulary`` belong to ``run``, because each part has its own.

    ``vocabulary`` = "keep" uses the units and vocabularies of that run, and ignores ``data.units``. "extend" also adds
    the tokens that only the new data has; new tokens start from the mean of their old parts. "keep" does so too if
    training targets have tokens that the run lacks, of pieces if more than one target in a hundred has one. If the unit
    cannot grow (sentencepiece), more than that is an error. "own" learns vocabularies by ``data.units``. If a
    vocabulary differs, embeddings and readouts are copied token by token. Counts are no weights: from a run of a
    counted model, such as phrase-based or n-gram, a neural one takes only the vocabularies. But a model with a counted
    part takes the counts, if the run has counted the same training files with the same settings. A new run that is
    resumed continues from its own checkpoint instead.

    ``keep_old`` is the share of the training pairs that are drawn from the training set of ``run``, so that the new run
    does not forget it. Training then ends with the loss of both runs on the validation set of ``run``; 0 measures it
    alone.
    """

    run: Path | None = None
    checkpoint: Checkpoint = "best"
    vocabulary: Literal["keep", "extend", "source", "own"] = "keep"
    parts: tuple[Part, ...] | None = None
    keep_old: float | None = None

    def __post_init__(self) -> None:
        if self.keep_old is not None and not (0 <= self.keep_old < 1 and self.run is not None):
            raise UserError(f"init.keep_old = {self.keep_old}: from 0 to below 1 was expected, with a run (--init RUN)")
        if (self.run is None) != bool(self.parts):
            have = "both init.run and init.parts are set" if self.parts else "neither init.run nor init.parts is set"
            raise UserError(f"{have}: a run for the whole model, or runs for its parts, were expected")

    @property
    def keeps_vocabulary(self) -> bool:
        """True if a vocabulary of the new run comes from another run, so that its unit does, too."""
        chosen = [part.vocabulary for part in self.parts] if self.parts else [self.vocabulary]
        return any(vocabulary != "own" for vocabulary in chosen)


@dataclass(frozen=True)
class Distillation:
    """The trained run that a new run (the student) learns from (``[distillation]``): the ``teacher``, or RUN+RUN for an
    ensemble.

    A ``share`` of the loss is the cross-entropy with the teacher's distribution over each next token (Hinton et al.
    2015; Kim and Rush 2016). The rest is the cross-entropy with the target. Teacher and student must have the same
    vocabularies. A student with the same ``data.units`` as its teacher takes the teacher's vocabularies, unless it
    starts from another run (``[init]``) or the teacher reads no source. The teacher's distributions are computed once
    if every epoch reads the same tokens and they need at most ``room`` GiB. Otherwise they are computed with each
    batch. Keep the teacher's directory until training has ended.
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


@dataclass(frozen=True)
class Parent:
    """A run that another one needs: the setting that names it (``key``), its directory and its checkpoint."""

    key: str
    run: Path
    checkpoint: Checkpoint


def parents(init: Init | None, distillation: Distillation | None) -> list[Parent]:
    """The runs that these settings name: of ``init``, then of ``distillation``. Each member of an ensemble is one of
    them.
    """
    found = []
    if init is not None and init.run is not None:
        found += [Parent("init.run", run, init.checkpoint) for run in members(init.run)]
    if init is not None:
        found += [
            Parent("init.parts.run", run, part.checkpoint) for part in init.parts or () for run in members(part.run)
        ]
    if distillation is not None:
        taught = distillation.teacher, distillation.checkpoint
        found += [Parent("distillation.teacher", run, taught[1]) for run in members(taught[0])]
    return found


def parents_of(settings: config.Table) -> list[Parent]:
    """The runs that the tables ``init`` and ``distillation`` of a run's settings name; empty without them."""
    init = config.build(settings["init"], Init, path="init") if "init" in settings else None
    taught = settings.get("distillation")
    return parents(init, None if taught is None else config.build(taught, Distillation, path="distillation"))


def check_parents(needed: Collection[Parent], deleted: Collection[Path]) -> None:
    """Raises FileNotFoundError if a run in ``needed``, or its checkpoint, is missing. Raises UserError if a needed run
    is one of the directories ``deleted``, which are about to be deleted.
    """
    for parent in needed:
        find_weights(parent.run, parent.checkpoint)
        if parent.run.resolve() in {each.resolve() for each in deleted}:
            raise UserError(
                f"{parent.key} is {parent.run}, which overwrite would delete; choose another directory (out)"
            )
