"""A record is the file behind a figure: the scores, and everything that is needed to judge or repeat them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from itertools import chain, count
from pathlib import Path

from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.files import write_text
from transduce.data.fingerprints import Fingerprint
from transduce.wings.records.machine import Machine

FORMAT = 1  # raise it when a key changes its meaning


class RecordError(UserError):
    """A record cannot be read. The message names the file, the problem and the fix."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}; restore the file from version control, or measure again with --record")


@dataclass(frozen=True)
class Figure:
    """One metric: its ``value``, its 95 % interval from ``low`` to ``high`` (None if there is none), and the metric's
    signature.
    """

    value: float
    low: float | None = None
    high: float | None = None
    signature: str = ""


@dataclass(frozen=True)
class Change:
    """A setting in the shipped ``recipe`` and in the ``run``. None means that one of them does not have it."""

    recipe: object = None
    run: object = None


@dataclass(frozen=True)
class Effort:
    """The budget that training spent. ``updates`` are passes for a counted model, ``minutes`` are by the training's
    clock, and ``tokens`` are target tokens; None if they were not counted.
    """

    updates: int
    minutes: float
    tokens: int | None = None


@dataclass(frozen=True)
class Versions:
    """The versions of Python, torch and transduce."""

    python: str
    torch: str
    transduce: str


@dataclass(frozen=True)
class Training:
    """One training of a run: the ``time`` when it began, or went on after update ``step``, by which command, where
    (``processor`` and ``threads``) and with which versions. ``commit`` and ``clean`` are about its code, as for a
    record; None if a training of an early version kept neither.
    """

    time: str
    step: int
    command: str
    processor: str
    threads: int
    versions: Versions
    commit: str | None = None
    clean: bool | None = None


@dataclass(frozen=True)
class TrainedModel:
    """A run: the shipped ``recipe`` that is nearest to it, its ``configuration`` with every default, and its
    ``difference`` from the recipe.

    ``facts`` are the sizes that the data gave (``types.Facts``). ``parameters`` is the count of numbers in its tensors.
    ``effort`` is None if it is not known, and ``training_data`` if the files are gone. ``validation`` holds the scores
    of the chosen checkpoint on the validation data. ``trainings`` is empty for a run that an older version trained.
    """

    name: str
    recipe: str
    configuration: config.Table
    difference: dict[str, Change]
    facts: dict[str, int]
    seed: int
    parameters: int
    effort: Effort | None = None
    training_data: Fingerprint | None = None
    validation: dict[str, float] = field(default_factory=dict)
    trainings: tuple[Training, ...] = ()


@dataclass(frozen=True)
class MeasuredSystem:
    """A system with its scores on some examples, its search, and the models behind it. ``models`` is empty if the
    outputs were read from a file.
    """

    name: str
    scores: dict[str, Figure]
    examples: Fingerprint
    search: config.Table = field(default_factory=dict)
    models: tuple[TrainedModel, ...] = ()


@dataclass(frozen=True)
class MeasuredDifference:
    """The score of the system ``one`` minus the score of ``other`` by a ``metric``, on the same examples, with its 95 %
    interval from ``low`` to ``high`` and its p-values.

    ``adjusted_p`` is ``randomisation_p`` with Holm's correction over all differences of the record by this metric.
    """

    metric: str
    one: str
    other: str
    value: float
    low: float
    high: float
    bootstrap_p: float
    randomisation_p: float
    adjusted_p: float


@dataclass(frozen=True)
class PrintedTable:
    """A table as a benchmark printed it: its heading, the titles of its columns, and its rows of cells."""

    heading: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Record:
    """The result of one command.

    ``split`` is test, valid or train, or the name of a file. ``clean`` says whether the code was as ``commit`` has it;
    both are None outside of a git checkout. ``differences`` are those between ``systems`` that were tested. A
    benchmark fills ``tables`` with the tables that it printed, and ``models`` with the runs behind them.
    """

    command: str
    date: str
    split: str
    machine: Machine
    versions: Versions
    systems: tuple[MeasuredSystem, ...] = ()
    differences: tuple[MeasuredDifference, ...] = ()
    tables: tuple[PrintedTable, ...] = ()
    models: tuple[TrainedModel, ...] = ()
    commit: str | None = None
    clean: bool | None = None
    format: int = FORMAT

    @classmethod
    def read(cls, path: Path) -> Record:
        """Reads a record and checks every key. Raises RecordError if the content is not a record of this format, and
        OSError if there is no such file.
        """
        try:
            table = _without_nulls(json.loads(path.read_text(encoding="utf-8")))
        except ValueError as error:
            raise RecordError(path, f"not JSON ({error}), expected one JSON object") from error
        if not isinstance(table, dict):
            raise RecordError(path, f"a JSON {type(table).__name__}, expected one JSON object")
        written = table.get("format")
        if written != FORMAT:
            raise RecordError(path, f"format = {written!r}, expected {FORMAT}, the format of this version")
        try:
            return config.build(table, cls)
        except config.ConfigError as error:
            raise RecordError(path, str(error)) from error

    def write(self, path: Path) -> Path:
        """Writes the record and returns the path of its file.

        A path that ends in .json is that file; an older file there is replaced. Any other path is a folder: the record
        gets a new file there, and replaces nothing. The new file is named after the first system, or else the first
        table, and the split.
        """
        file = path if path.suffix == ".json" else self._new_file(path)
        write_text(file, json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")
        return file

    def _new_file(self, folder: Path) -> Path:
        first = next(chain((each.name for each in self.systems), (each.heading for each in self.tables)), "record")
        stem = f"{_slug(first)}-{_slug(Path(self.split).name)}"
        numbered = chain([folder / f"{stem}.json"], (folder / f"{stem}-{number}.json" for number in count(2)))
        return next(file for file in numbered if not file.exists())


def _slug(text: str) -> str:
    kept = "".join(letter if letter.isalnum() or letter in "._+" else "-" for letter in text)
    return "-".join(filter(None, kept.split("-")))[:80] or "record"


def _without_nulls(value: object) -> object:
    """The value without the keys that are null, at any depth: a missing key has its default, which is None."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value
