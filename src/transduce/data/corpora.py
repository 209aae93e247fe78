"""Corpora on disk: two parallel text files, or one TSV, JSON-lines or CoNLL file, plain or gzipped.

A line may have several targets: in several target files, or as a JSON array. It gives one row for each target. A
language model learns from targets only: a text file, or columns without a source. Only "\\n" ends a line ("\\r\\n" is
accepted). U+2028, form feeds and similar characters are text.
"""

from __future__ import annotations

import codecs
import gzip
import json
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from stat import S_ISCHR, S_ISFIFO
from typing import IO, Any, Literal

from transduce.data import conll
from transduce.errors import UserError

Side = Literal["source", "target"]
Format = Literal["tsv", "jsonl", "txt", "conllu", "conll"]
LONGEST_LINE = 1_000_000  # bytes; the default of data.lines.max_bytes
BLOCK = 1 << 16  # bytes read at once where lines are only counted
FORMATS: dict[str, Format] = {
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".json": "jsonl",
    ".txt": "txt",
    ".conllu": "conllu",
    ".conll": "conll",
}


class DataError(UserError):
    """The data do not fit the settings. The message names the file and the fix."""


class LineError(DataError):
    """A ``line`` has the wrong number of labels, features, factors or numbers."""

    def __init__(self, line: str, problem: str) -> None:
        super().__init__(f"{line[:60]!r} {problem}")
        self.line = line


@dataclass(frozen=True)
class ColumnNames:
    """The columns of a file: numbers from 0 (TSV, CoNLL), or names (TSV with a header line, keys of JSON lines,
    CoNLL-U).

    Without ``target`` there are only sources. ``labels`` come before the source, each followed by a tab. Tabs and line
    breaks inside a label become spaces. Without ``source`` the labels are the whole source; without labels too, there
    are only targets.
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
        """The columns that form the source."""
        return self.labels if self.source is None else (*self.labels, self.source)

    @property
    def all(self) -> tuple[str | int, ...]:
        return self.sources if self.target is None else (*self.sources, self.target)


TSV_COLUMNS = ColumnNames(source=0, target=1)
JSON_COLUMNS = ColumnNames(source="source", target="target")
CONLLU_COLUMNS = ColumnNames(source="form", target="upos")


@dataclass(frozen=True)
class Files:
    """One split: one file ``path``, or two parallel text files ``source`` and ``target``.

    The suffix of ``path`` tells its format: .tsv, .jsonl, .txt, .conllu or .conll, each optionally with .gz. Without a
    target (in ``target`` or in the columns) there are only sources. Without a source there are only targets; each line
    of a .txt file is a target. ``target`` may be several files, all parallel to the source: several references.
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
        """The files of ``target``. Empty if there are only sources, or if one file has everything."""
        return () if self.target is None else (self.target,) if isinstance(self.target, str) else self.target

    @property
    def targets_only(self) -> bool:
        """True if the files have no source. ``columns`` may leave the source out too."""
        return self.source is None and (self.path is None or _format(self.path) == "txt")

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files, in the order path, source, targets."""
        return tuple(Path(p).expanduser() for p in (self.path, self.source, *self.targets) if p is not None)

    def located(self, source: str) -> str:
        """The path of a signal, relative to the current folder. The files give it relative to their own folder."""
        return str(self.paths[0].parent / source) if source.strip() else source

    def place(self, side: Side, number: int) -> str:
        """file:line, for messages."""
        path = self.path or (self.source if side == "source" else " or ".join(self.targets))
        return f"{path}:{number}"


@dataclass(frozen=True)
class Splits:
    """The files for training, for the choice of settings, and for the final measurement."""

    train: Files | None = None
    valid: Files | None = None
    test: Files | None = None


def present(splits: Splits) -> dict[str, Files]:
    """The splits that exist, by name."""
    named = {"train": splits.train, "valid": splits.valid, "test": splits.test}
    return {name: files for name, files in named.items() if files is not None}


@dataclass(frozen=True)
class Problem:
    """Why a row cannot be used, and its place (file:line)."""

    kind: Literal["undecodable", "malformed"]
    place: str
    detail: str


@dataclass(frozen=True)
class CorpusRow:
    """A source and one of its targets. ``number`` is the line, from 1; all rows of a line share it.

    A side that the file does not have is None. Undecodable bytes are already replaced by U+FFFD.
    """

    number: int
    source: str | None
    target: str | None = None
    problem: Problem | None = None


def read(files: Files, columns: ColumnNames | None = None, longest: int = LONGEST_LINE) -> Iterator[CorpusRow]:
    """The rows of a split, streamed.

    ``columns`` are those of ``files.path``. The default is the first two columns of a TSV or .conll file, the keys
    "source" and "target" of JSON lines, and the columns "form" and "upos" of .conllu. Raises DataError if a file or a
    column is missing, if parallel files have unequal lengths, and for a line of more than ``longest`` bytes. Anything
    else that is wrong with one line is the ``problem`` of its row.
    """
    if files.path is None:
        return _read_parallel(files, longest)
    if (form := _format(files.path)) == "txt":
        return _read_parallel(Files(target=files.path), longest)
    every = lines(files.paths[0], longest)
    if form == "tsv":
        return _read_tsv(files, columns or TSV_COLUMNS, every)
    if form in ("conllu", "conll"):
        columns = columns or (CONLLU_COLUMNS if form == "conllu" else TSV_COLUMNS)
        return _read_conll(files, columns, every, form == "conllu")
    return _read_json_lines(files, columns or JSON_COLUMNS, every)


def check(files: Files, longest: int = LONGEST_LINE) -> int:
    """The number of examples: lines, or sentences of CoNLL files.

    Raises DataError if a file is missing, if parallel files have unequal lengths, and for a line of more than
    ``longest`` bytes.
    """
    if files.path is not None and (form := _format(files.path)) in ("conllu", "conll"):
        return sum(1 for _ in conll.sentences(lines(files.paths[0], longest), (0,), form == "conllu"))
    counts = [_count(path, longest) for path in files.paths]
    if len(set(counts)) > 1:
        raise _unequal(files)
    return counts[0]


def identity(path: Path) -> tuple[str, int, int]:
    """Path, size and modification time. They change if the file is edited or replaced, and need no reading of the file.

    Raises DataError if the file does not exist, or can be read only once.
    """
    try:
        stat = path.stat()
    except FileNotFoundError:
        raise DataError(f"no such file: {path}") from None
    if S_ISFIFO(stat.st_mode) or S_ISCHR(stat.st_mode):
        raise DataError(f"{path} can be read only once, and training reads its data several times: write it to a file")
    return str(path.resolve()), stat.st_size, stat.st_mtime_ns


# ------------------------------------------------------------------- formats


def _read_parallel(files: Files, longest: int) -> Iterator[CorpusRow]:
    source, *targets = (lines(path, longest) for path in files.paths)
    if files.source is None or not targets:
        for number, line in enumerate(source, 1):
            yield _row(files, number, *((line, None) if files.source else (None, line)))
        return
    apart = [Files(source=files.source, target=path) for path in files.targets]  # find out which file is damaged
    for number, (line, *texts) in enumerate(zip_longest(source, *targets), 1):
        if line is None or None in texts:
            raise _unequal(files)
        for one, text in zip(apart, texts, strict=True):
            yield _row(one, number, line, text)


def _read_tsv(files: Files, columns: ColumnNames, every: Iterator[bytes]) -> Iterator[CorpusRow]:
    header: list[str] | None = None
    if any(isinstance(column, str) for column in columns.all):
        header = next(every, b"").decode("utf-8", "replace").split("\t")
    places = [_position(files, column, header or []) for column in columns.all]
    for number, line in enumerate(every, 1 if header is None else 2):
        fields = line.split(b"\t")
        if len(fields) <= max(places):
            detail = (
                f"{_counted(len(fields), 'tab-separated column')} found, at least {max(places) + 1} expected for "
                f"columns {', '.join(map(repr, columns.all))}"
            )
            yield CorpusRow(number, "", problem=Problem("malformed", files.place("source", number), detail))
        else:
            yield _row(files, number, *_sides([fields[place] for place in places], columns))


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _read_json_lines(files: Files, columns: ColumnNames, every: Iterator[bytes]) -> Iterator[CorpusRow]:
    for column in columns.all:
        if isinstance(column, int):
            raise DataError(
                f"JSON lines have names, so column {column} of columns finds nothing in {files.path}: give a key"
            )
    for number, line in enumerate(every, 1):
        record = None
        try:
            record = json.loads(line.decode("utf-8", "replace"))
            labels = [_label(record[key]) for key in columns.labels]
            source, targets = _texts(record, columns)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            detail = f"not a usable JSON object: {error}"
            if isinstance(error, KeyError):
                found = ", ".join(map(repr, record)) if record else "no key"
                detail = f"keys {', '.join(map(repr, columns.all))} expected, {found} found"
            yield CorpusRow(number, "", problem=Problem("malformed", files.place("source", number), detail))
            continue
        # An escape such as \\ud800 is valid JSON but no character; it is treated like an undecodable byte.
        bad = _invalid(line)
        for target in targets or [[]]:
            encoded = [text.encode("utf-8", "surrogatepass") for text in [*labels, *source, *target]]
            row = _row(files, number, *_sides(encoded, columns))
            yield row if bad is None else replace(row, problem=_undecodable(files, "source", number, bad))


def _read_conll(files: Files, columns: ColumnNames, every: Iterator[bytes], universal: bool) -> Iterator[CorpusRow]:
    if columns.labels:
        raise DataError(f"{files.path} has labels of words, not of sentences: leave labels out of columns")
    places = [_position(files, column, conll.NAMES if universal else ()) for column in columns.all]
    for sentence in conll.sentences(every, places, universal):
        if sentence.broken is not None:
            number, detail = sentence.broken
            yield CorpusRow(sentence.number, "", problem=Problem("malformed", files.place("source", number), detail))
        else:
            yield _row(files, sentence.number, *_sides(sentence.columns, columns))


def _texts(record: Any, columns: ColumnNames) -> tuple[list[str], list[list[str]]]:
    """The labels and source of a JSON object, and all its targets."""
    source = [] if columns.source is None else [record[columns.source]]
    target = [] if columns.target is None else record[columns.target]
    targets = target if isinstance(target, list) else [target]
    if not all(isinstance(text, str) for text in [*source, *targets]) or (columns.target is not None and not targets):
        names = " and ".join(map(str, columns.all[len(columns.labels) :]))
        raise TypeError(f"{names} must be strings (or the target an array of some)")
    return source, [[text] for text in targets]


def _sides(fields: Sequence[bytes], columns: ColumnNames) -> tuple[bytes | None, bytes | None]:
    """The source and target from the fields of ``columns.all``. Tabs and line breaks inside labels become spaces."""
    sources = len(columns.sources)
    labels = [re.sub(rb"[\t\r\n]", b" ", field) for field in fields[: len(columns.labels)]]
    source = b"\t".join([*labels, *fields[len(labels) : sources]])
    return source if sources else None, None if columns.target is None else fields[sources]


def _label(value: Any) -> str:
    """Reads a label from a JSON value: a string, a number or a boolean."""
    if not isinstance(value, (str, bool, int, float)):
        raise TypeError(f"a label must be a string or a number, not {type(value).__name__}")
    return value if isinstance(value, str) else json.dumps(value)


def _row(files: Files, number: int, source: bytes | None, target: bytes | None) -> CorpusRow:
    try:
        return CorpusRow(number, _decoded(source), _decoded(target))
    except UnicodeDecodeError as error:
        side: Side = "source" if source is not None and _invalid(source) else "target"
        problem = _undecodable(files, side, number, error)
        return CorpusRow(number, _decoded(source, "replace"), _decoded(target, "replace"), problem)


def _decoded(text: bytes | None, errors: str = "strict") -> str | None:
    return None if text is None else text.decode("utf-8", errors)


def _undecodable(files: Files, side: Side, number: int, error: UnicodeDecodeError) -> Problem:
    detail = f"byte 0x{error.object[error.start]:02x} at {error.start} is not UTF-8"
    return Problem("undecodable", files.place(side, number), detail)


def _invalid(line: bytes) -> UnicodeDecodeError | None:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return error
    return None


# ------------------------------------------------------------------- columns


def _format(path: str) -> Format:
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    suffix = (suffixes[:-1] if suffixes[-1:] == [".gz"] else suffixes)[-1:]
    if not suffix or suffix[0] not in FORMATS:
        raise DataError(
            f"cannot tell the format of {path!r} from its name: expected .tsv, .jsonl, .conllu or .conll (or .txt, a "
            "target a line), optionally with .gz after it; two parallel text files are given as source and target"
        )
    return FORMATS[suffix[0]]


def _position(files: Files, column: str | int, header: Sequence[str]) -> int:
    if isinstance(column, int):
        return column
    if column not in header:
        named = f"its columns are {', '.join(map(repr, header))}" if header else "its columns have numbers, from 0"
        raise DataError(f"{files.path} has no column {column!r}: {named}")
    return header.index(column)


# --------------------------------------------------------------------- bytes


def _open(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


def lines(path: Path, longest: int = LONGEST_LINE) -> Iterator[bytes]:
    """The lines of a file without line ends and byte order mark; a .gz file is decompressed.

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
    """The lines of an open file without line ends and byte order mark.

    Never holds more than one line of ``longest`` bytes. Raises DataError at a longer line, before the rest of it is
    read; ``name`` is the file's in the message.
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


def _count(path: Path, longest: int) -> int:
    """The number of lines; reads blocks, so that the length of a line does not matter."""
    newlines, last, length = 0, b"\n", 0
    try:
        with _open(path) as file:
            while block := file.read(BLOCK):
                first, *rest = block.split(b"\n")
                length += len(first)
                # the last part may be a line's beginning; the line end and a byte order mark do not count
                if length > longest + len(codecs.BOM_UTF8) + len(b"\r"):
                    raise _too_long(str(path), newlines + 1, longest)
                if rest:
                    length = len(rest[-1])
                newlines += len(rest)
                last = block[-1:]
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(path, newlines, error) from error
    return newlines + (last != b"\n")


def _unreadable(path: Path, lines: int, error: Exception) -> DataError:
    if isinstance(error, FileNotFoundError):
        return DataError(f"no such file: {path}")
    if isinstance(error, gzip.BadGzipFile | EOFError | zlib.error):
        return DataError(f"{path}: the gzip data break off or are damaged after line {lines} ({error}): fetch it again")
    return DataError(f"cannot read {path}: {error}")


def _unequal(files: Files) -> DataError:
    source, *targets = (_count(path, sys.maxsize) for path in files.paths)
    unequal = [one for one in zip(files.targets, targets, strict=True) if one[1] != source]
    if not unequal:  # any more: they are pipes, or have changed
        return DataError(
            f"{', '.join(map(str, files.paths))} are of unequal length, and cannot be read again to say how"
        )
    path, lines = unequal[0]
    return DataError(
        f"parallel files of unequal length: {files.source} has {source} lines, {path} has {lines}; "
        "line n of one must be the counterpart of line n of the other"
    )
