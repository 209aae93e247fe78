"""The runs that a run comes from: the one whose weights it started with, and those that it learns from."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from transduce import config
from transduce.errors import UserError
from transduce.runs.layout import Checkpoint, find_weights, members


@dataclass(frozen=True)
class Init:
    """The run that a new run starts from (``[init]``). Parameters of the same name and shape start with the weights of
    its ``checkpoint``.

    ``vocabulary`` = "keep" uses the units and vocabularies of that run, and ignores ``data.units``. "extend" also adds
    the tokens that only the new data has. "own" learns vocabularies by ``data.units``. If a vocabulary differs,
    embeddings and readouts are copied token by token. Counts are no weights: from a run of a counted model, such as
    phrase-based or n-gram, a neural one takes only the vocabularies. A new run that is resumed continues from its own
    checkpoint instead.
    """

    run: Path
    checkpoint: Checkpoint = "best"
    vocabulary: Literal["keep", "extend", "source", "own"] = "keep"


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
    if init is not None:
        found += [Parent("init.run", run, init.checkpoint) for run in members(init.run)]
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
