"""The options of ``[data]``: what to learn from, and how to read it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, cast

from transduce.core.stages import counted
from transduce.data.base import Origin, PairFilter
from transduce.data.corpora import LONGEST_LINE, ColumnNames, DataError, Files
from transduce.data.rows import CorpusRow, read
from transduce.data.tokenizers.base import Unit
from transduce.data.tokenizers.signal_files import Signal


@dataclass(frozen=True)
class Units:
    """The units of ``source`` and ``target``, or ``joint`` units: one vocabulary learned on both sides together.

    A language model, whose data have only targets, needs only ``target``. Vocabularies are learned on at most
    ``sample`` lines of each side, evenly spaced over the training set. If ``source_lowercase`` is True, ``joint`` units
    read sources in lower case, and keep the case of targets. Raises DataError for any other combination, if the unit of
    an output (``target`` or ``joint``) is a signal, if ``sample`` is below 1, or if ``source_lowercase`` is set and
    ``joint`` is no text.
    """

    source: Unit | None = None
    target: Unit | None = None
    joint: Unit | None = None
    sample: int = 1_000_000
    source_lowercase: bool = False

    def __post_init__(self) -> None:
        if self.source_lowercase and not hasattr(self.joint, "lowercase"):
            raise DataError("units.source_lowercase is for joint units of text: set units.source.lowercase instead")
        apart = self.source is not None or self.target is not None
        if apart if self.joint is not None else self.target is None:
            raise DataError("units are given either for source and target, or as joint for both: give one or the other")
        for side in ("target", "joint"):
            if (unit := getattr(self, side)) is not None and unit.signal:
                raise DataError(f"units.{side} is a signal, which can be read and not written: set it as units.source")
        if self.sample < 1:
            raise DataError(f"units.sample = {self.sample}: at least one line is needed to learn a vocabulary")

    @property
    def targets_only(self) -> bool:
        """True if there are no units for a source."""
        return self.source is None and self.joint is None

    @property
    def signal(self) -> Signal | None:
        """The unit of the source if it is a signal, which means that the source is the path of a file;
        otherwise None.
        """
        return cast(Signal, self.source) if self.source is not None and self.source.signal else None


@dataclass(frozen=True)
class Lines:
    """The policies for lines that a model cannot learn from. The report has the number of lines with each problem,
    their policy, and the first places (file:line). It does not count unequal lines that are kept.

    The policy "skip" leaves the line out, "keep" learns from it, and "error" raises DataError. A line is overlong if
    its source has more than ``max_source_length`` ids, or its target more than ``max_target_length``, counting the
    closing EOS. The length of a signal is its number of steps (frames, columns). "truncate" cuts both sides to these
    lengths. A line is empty if one of its sides has no text, or white space alone. It is undecodable if it is not
    UTF-8; "replace" puts U+FFFD in the place of the wrong bytes. A malformed line has too few columns, or is not a JSON
    object with the expected keys and strings. An unequal line does not have the same number of tokens on both sides,
    which matters if the target's tokens are labels of the source's. An unreadable signal is a file that is missing,
    broken, beyond a limit of the unit, or of another kind than the unit reads. A line of more than ``max_bytes`` bytes
    always raises DataError: it is not read to its end, so that no file can fill the memory. The settings themselves
    raise DataError if ``max_bytes`` is below 1 or a length below 2.
    """

    max_source_length: int = 256
    max_target_length: int = 256
    overlong: Literal["skip", "truncate", "error"] = "skip"
    empty: Literal["skip", "keep", "error"] = "skip"
    undecodable: Literal["skip", "replace", "error"] = "skip"
    malformed: Literal["skip", "error"] = "skip"
    unequal: Literal["keep", "skip", "error"] = "keep"
    unreadable: Literal["skip", "error"] = "skip"
    max_bytes: int = field(
        default=LONGEST_LINE, repr=False
    )  # changes no line that is read, so nothing is prepared anew

    def __post_init__(self) -> None:
        if self.max_bytes < 1:
            raise DataError(f"lines.max_bytes = {self.max_bytes}: a line has at least 1 byte")
        for name in ("max_source_length", "max_target_length"):
            if getattr(self, name) < 2:
                raise DataError(f"lines.{name} = {getattr(self, name)}: at least 2, a token and EOS")

    def setting(self, kind: str) -> str:
        """The settings behind a kind of problem, with their values, for messages."""
        if kind == "overlong":
            limits = f"{self.max_source_length}, data.lines.max_target_length = {self.max_target_length}"
            return f"data.lines.max_source_length = {limits}"
        if not hasattr(self, kind):
            return "data.filters"
        return f"data.lines.{kind} = {getattr(self, kind)}"

    @property
    def token_for_token(self) -> bool:
        """True if the policy ``unequal`` is not "keep": only pairs with one target token for each source token stay."""
        return self.unequal != "keep"


@dataclass(frozen=True)
class Data:
    """The data of a run: its splits, or the origin that brings them, and how their text is read. A split that is given
    overrides the origin's.

    ``columns`` says which columns of a split's file have the source, the target and the labels; None stands for the
    defaults of the file's format (``rows.read``). Parallel text files have no columns. If the source is a signal, its
    text is the path of a file, relative to the folder of the corpus file. ``filters`` leave
    pairs of the training set out. If ``group_references`` is True, evaluation
    treats the targets of all rows with the same source as its references. ``cache`` is the folder for prepared data; by
    default it is a folder beside the run. ``processes`` encode the training set; more than one pay from about a million
    pairs on, and give the same data. ``cluster`` is the address of a Dask scheduler, such as tcp://host:8786: its
    workers encode instead, and count models whose counts can be divided. All machines must see the folder ``cache``.
    Raises DataError if the source is a signal and ``columns`` name labels.
    """

    units: Units
    train: Files | None = None
    valid: Files | None = None
    test: Files | None = None
    origin: Origin | None = None
    columns: ColumnNames | None = None
    lines: Lines = Lines()
    filters: PairFilter | None = None
    group_references: bool = True
    cache: Path | None = None
    processes: int | None = None
    cluster: str | None = None

    def __post_init__(self) -> None:
        if self.processes is not None and self.processes < 1:
            raise DataError(f"data.processes = {self.processes}: at least 1 was expected")
        if self.units.signal is not None and self.columns is not None and self.columns.labels:
            raise DataError("columns.labels stand before a text, and a signal has none: leave them out")

    def rows(self, files: Files) -> Iterator[CorpusRow]:
        """Yields the rows of a split as ``rows.read`` does, one at a time.

        If the source is a signal, each source is the path of a file. The corpus file gives it relative to its own
        folder, and the row has it joined to that folder.
        """
        rows = counted(read(files, self.columns, self.lines.max_bytes), "pairs read")
        if self.units.signal is None:
            return rows
        return (replace(row, source=row.source and (row.files or files).located(row.source)) for row in rows)
