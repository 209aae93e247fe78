"""The files of a corpus: which ones each split has, their formats and columns, and their lines as bytes.

A split is parallel text files (one source and any number of targets, or one side alone), or one TSV, JSON-lines, CoNLL,
text file, or file of trees. All may be gzipped, and ``rows.py`` reads them. Only "\\n" ends a line ("\\r\\n" is
accepted). U+2028, form feeds and similar characters are text.
"""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISCHR, S_ISFIFO
from typing import IO, Literal

from transduce.errors import UserError

Side = Literal["source", "target"]
Format = Literal["tsv", "jsonl", "txt", "conllu", "conll", "trees"]
LONGEST_LINE = 1_000_000  # bytes; the default of data.lines.max_bytes
FORMATS: dict[str, Format] = {
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".json": "jsonl",
    ".txt": "txt",
    ".conllu": "conllu",
    ".conll": "conll",
    ".trees": "trees",
}


class DataError(UserError):
    """The data or their settings are wrong: a file, a line, a column, a value of a setting, or an id."""


class LineError(DataError):
    """One side of a line does not have the labels, features, factors or numbers that its unit expects. ``line`` is the
    whole text of that side; the message has its first 60 characters.
    """

    def __init__(self, line: str, problem: str) -> None:
        super().__init__(f"{line[:60]!r} {problem}")
        self.line = line


@dataclass(frozen=True)
class ColumnNames:
    """The columns to read: numbers from 0 (TSV, CoNLL), or names (a TSV file's header line, keys of JSON lines,
    CoNLL-U, and ``words``, ``pos`` and ``tree`` of a file of trees).

    The source is the columns ``labels`` and then the column ``source``, joined by tabs. Tabs and line breaks inside a
    label become spaces. A CoNLL file cannot have ``labels``: its reader refuses them. Without ``source`` the labels are
    the whole source. Without ``source`` and ``labels`` there are only targets, and without ``target`` only sources.
    Raises DataError if no column is given, or for a negative number.
    """

    source: str | int | None = None
    target: str | int | None = None
    labels: tuple[str | int, ...] = ()

    def __post_init__(self) -> None:
        if not self.all:
            raise DataError("columns without a source and without a target: expected at least one of them, or labels")
        for column in self.all:
            if isinstance(column, int) and column < 0:
                raise DataError(f"columns: there is no column {column}; they are numbered from 0, the first")

    @property
    def sources(self) -> tuple[str | int, ...]:
        """The columns that form the source: the labels, then the source. Empty if there are none."""
        return self.labels if self.source is None else (*self.labels, self.source)

    @property
    def all(self) -> tuple[str | int, ...]:
        """All columns that are given, in the order labels, source, target."""
        return self.sources if self.target is None else (*self.sources, self.target)


@dataclass(frozen=True)
class Files:
    """The files of one split: either one file, ``path``, or the parallel text files ``source`` and ``target``.

    The suffix of ``path`` tells its format: .tsv, .jsonl (or .json), .txt, .conllu, .conll or .trees, each optionally
    with .gz. Each line of a .txt file is a target without a source. Line n of one parallel file belongs to line n of
    the others. ``source`` alone gives only sources, and ``target`` alone only targets. Several files in ``target`` are
    several references of each source. Raises DataError for any other combination. Checks neither the suffix nor whether
    the files exist.
    """

    path: str | None = None
    source: str | None = None
    target: str | tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.path is not None and self.source is None and self.target is not None:
            raise DataError(f"path={self.path!r} has both sides, so target={self.target!r} has no place: remove it")
        if (self.path is None) == (self.source is None and self.target is None):
            raise DataError(
                f"a split is either one file (path) or two (source, target), not path={self.path!r} with "
                f"source={self.source!r} and target={self.target!r}: give one or the other"
            )
        if self.target == ():
            raise DataError("target=[] names no file: leave it out where there are sources only")
        if self.path is None and self.source is None and len(self.targets) > 1:
            raise DataError(f"target={list(self.targets)!r} are several references of no source: name the file of it")

    @property
    def targets(self) -> tuple[str, ...]:
        """The files of ``target``. Empty if ``target`` is not given."""
        return () if self.target is None else (self.target,) if isinstance(self.target, str) else self.target

    @property
    def targets_only(self) -> bool:
        """True if these files can have no source: ``target`` without ``source``, or a .txt file as ``path``.

        False does not promise a source, because ``columns`` may leave it out. Raises DataError if the suffix of
        ``path`` tells no format.
        """
        return self.source is None and (self.path is None or format_of(self.path) == "txt")

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files that are given, in the order path, source, targets. "~" is replaced by the user's home folder."""
        return tuple(Path(p).expanduser() for p in (self.path, self.source, *self.targets) if p is not None)

    def located(self, source: str) -> str:
        """Joins the path of a signal to the folder of the first file of the split. An absolute path, and a text of
        white space alone, stay unchanged.
        """
        return str(self.paths[0].parent / source) if source.strip() else source

    def place(self, side: Side, number: int) -> str:
        """The place "file:number" for messages: line ``number`` of ``path`` or, for parallel files, of the file of that
        side. Several target files are joined by " or ".
        """
        path = self.path or (self.source if side == "source" else " or ".join(self.targets))
        return f"{path}:{number}"


@dataclass(frozen=True)
class Splits:
    """The files for training, for the choice of settings, and for the final measurement. None stands for a missing
    split.
    """

    train: Files | None = None
    valid: Files | None = None
    test: Files | None = None


def present(splits: Splits) -> dict[str, Files]:
    """The splits that are not None, by their names "train", "valid" and "test", in this order."""
    named = {"train": splits.train, "valid": splits.valid, "test": splits.test}
    return {name: files for name, files in named.items() if files is not None}


def identity(path: Path) -> tuple[str, int, int]:
    """Stands for the content of a file without reading it: its absolute path without symbolic links, its size in bytes
    and its modification time in nanoseconds.

    Raises DataError if the file does not exist, or is a pipe or a device, which can be read only once.
    """
    try:
        stat = path.stat()
    except FileNotFoundError:
        raise DataError(f"no such file: {path}") from None
    if S_ISFIFO(stat.st_mode) or S_ISCHR(stat.st_mode):
        raise DataError(f"{path} can be read only once, and training reads its data several times: write it to a file")
    return str(path.resolve()), stat.st_size, stat.st_mtime_ns


def format_of(path: str) -> Format:
    """The format of a file, from the suffix of its name before an optional .gz. Raises DataError for a suffix that is
    not in ``FORMATS``.
    """
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    suffix = (suffixes[:-1] if suffixes[-1:] == [".gz"] else suffixes)[-1:]
    if not suffix or suffix[0] not in FORMATS:
        raise DataError(
            f"cannot tell the format of {path!r} from its name: expected .tsv, .jsonl, .conllu, .conll or .trees "
            "(or .txt, a target a line), optionally with .gz after it; two parallel text files are given as source and "
            "target"
        )
    return FORMATS[suffix[0]]


# --------------------------------------------------------------------- bytes


def _open(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


def lines(path: Path, longest: int = LONGEST_LINE) -> Iterator[bytes]:
    """Yields the lines of a file, as bytes without line ends and without the file's byte order mark. A .gz file is
    decompressed.

    Raises DataError if the file is missing or damaged, or if a line has more than ``longest`` bytes.
    """
    number = 0
    try:
        with _open(path) as file:
            for line in bounded_lines(file, str(path), longest):
                number += 1
                yield line
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, number, error) from error


def bounded_lines(file: IO[bytes], name: str, longest: int = LONGEST_LINE) -> Iterator[bytes]:
    """Yields the lines of an open file, as bytes without line ends and without the file's byte order mark.

    Holds at most one line in memory. Raises DataError at a line of more than ``longest`` bytes, not counting its line
    end, before the rest of it is read. ``name`` stands for the file in that message.
    """
    number = 0
    while line := file.readline(longest + len(codecs.BOM_UTF8) + len(b"\r\n")):
        number += 1
        text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        text = text.removesuffix(b"\n").removesuffix(b"\r")
        if len(text) > longest:
            raise _too_long(name, number, longest)
        yield text


def _too_long(name: str, number: int, longest: int) -> DataError:
    return DataError(
        f"{name}:{number}: the line has more than {longest:,} bytes; divide it into several lines, remove it, or raise "
        "the limit, data.lines.max_bytes"
    )


def _unreadable(path: Path, lines: int, error: Exception) -> DataError:
    if isinstance(error, FileNotFoundError):
        return DataError(f"no such file: {path}")
    if isinstance(error, gzip.BadGzipFile | EOFError | zlib.error):
        return DataError(f"{path}: the gzip data break off or are damaged after line {lines} ({error}): fetch it again")
    return DataError(f"cannot read {path}: {error}")
