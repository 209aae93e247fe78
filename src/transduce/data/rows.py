"""Corpora on disk as rows: a source and a target, read from each format.

A line may have several targets: in several target files, or as a JSON array. It gives one row for each target. A JSON
array as the source is one text. A language model learns from targets only: a text file, or columns without a source.
Files may also have sources only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import chain, zip_longest
from typing import Any, Literal

from transduce.core.errors import UserError
from transduce.core.registry import service
from transduce.core.text_files import undecodable
from transduce.data import conll
from transduce.data.addresses import Stored, stored
from transduce.data.corpora import LONGEST_LINE, ColumnNames, DataError, Files, Side, format_of, lines

Records = Iterator[tuple[int, list[bytes], str]]  # the number of a line, its cells, and what is wrong with it
TSV_COLUMNS = ColumnNames(source=0, target=1)
JSON_COLUMNS = ColumnNames(source="source", target="target")
CONLLU_COLUMNS = ColumnNames(source="form", target="upos")
TREE_COLUMNS = ColumnNames(source="words", target="tree")


@dataclass(frozen=True)
class Problem:
    """The problem of a corpus row: its kind, its place (file:line) and a description."""

    kind: Literal["undecodable", "malformed"]
    place: str
    detail: str


@dataclass(frozen=True)
class CorpusRow:
    """A row of a corpus: a source and one of its targets. ``number`` is the line in the file, from 1; all rows of a
    line share it. ``files`` is the shard that it was read from.

    A sentence of a CoNLL file has the line of its first word. A side is None if the files or the columns do not have
    it. If the line has a ``problem``, undecodable bytes are already replaced by U+FFFD, and a malformed line has an
    empty source and no target. ``further`` is True if its file has columns that nobody has chosen or left out.
    """

    number: int
    source: str | None
    target: str | None = None
    problem: Problem | None = None
    files: Files | None = field(default=None, compare=False, repr=False)
    further: bool = False

    @property
    def key(self) -> str:
        """Stands for the row in its corpus: a hash of its place and its texts."""
        place = "" if self.files is None else self.files.place("source", self.number)
        return blake2b(f"{place}\n{self.source}\n{self.target}".encode(), digest_size=8).hexdigest()

    @property
    def line(self) -> tuple[int, int]:
        """Equal for the rows of one line, and unequal for different lines of a split."""
        return id(self.files), self.number


def read(files: Files, columns: ColumnNames | None = None, longest: int = LONGEST_LINE) -> Iterator[CorpusRow]:
    """Yields the rows of a split, one at a time.

    ``columns`` are the columns of ``files.path``. The default is the first two columns of a TSV or .conll file, the
    keys "source" and "target" of JSON lines, Parquet and CSV, the columns "form" and "upos" of .conllu, and "words" and
    "tree" of .trees. A TMX file has no default: its columns are two languages. Parallel files and .txt files ignore
    them. The call raises DataError if the suffix of ``path`` tells no format. While it reads, it raises DataError if a
    file is missing or damaged, if a column does not exist or does not suit the format, or if parallel files have
    unequal lengths. A line of more than ``longest`` bytes raises DataError too. Anything else that is wrong with one
    line, such as too few columns, is the ``problem`` of its row.
    """
    return chain.from_iterable([_tagged(shard, _read(shard, columns, longest)) for shard in files.shards])


def _tagged(shard: Files, rows: Iterator[CorpusRow]) -> Iterator[CorpusRow]:
    return (replace(row, source=shard.tagged(row.source), files=shard) for row in rows)


def _read(files: Files, columns: ColumnNames | None, longest: int) -> Iterator[CorpusRow]:
    """The rows of one shard, without its tag."""
    if files.path is None:
        return _read_parallel(files, longest)
    if (form := format_of(files.path)) == "txt":
        return _read_parallel(Files(target=files.path), longest)
    if form == "parquet":
        return _read_parquet(files, columns or JSON_COLUMNS)
    every = lines(stored(files.path), longest)
    if form == "tsv":
        cells = ((number, line.split(b"\t"), "") for number, line in enumerate(every, 1))
        return _read_table(files, columns or TSV_COLUMNS, cells, "tab-separated column", columns is None)
    if form == "csv":
        return _read_table(files, columns or JSON_COLUMNS, service("records of a CSV table")(every, longest), "column")
    if form == "tmx":
        return _read_memory(files, columns, every)
    if form == "dict":
        return _read_lexicon(files, columns, every)
    if form in ("conllu", "conll"):
        columns = columns or (CONLLU_COLUMNS if form == "conllu" else TSV_COLUMNS)
        return _read_conll(files, columns, every, form == "conllu")
    if form == "trees":
        return _read_trees(files, columns or TREE_COLUMNS, every)
    return _read_json_lines(files, columns or JSON_COLUMNS, every)


def check(files: Files, longest: int = LONGEST_LINE) -> int:
    """Reads the files of a split and returns the number of their lines, including a TSV file's header line. For a CoNLL
    file it is the number of sentences, for a Parquet file the number of rows, for a TMX file of units.

    Raises DataError if a file is missing or damaged, if parallel files have unequal lengths, or at a line of more than
    ``longest`` bytes.
    """
    return sum(_check(shard, longest) for shard in files.shards)


def _check(files: Files, longest: int) -> int:
    form = None if files.path is None else format_of(files.path)
    if form == "parquet":
        return int(service("rows of a Parquet file")(files.paths[0]))
    if form == "tmx":
        return sum(1 for _ in service("units of a translation memory")(lines(files.paths[0], longest), str(files.path)))
    if form in ("conllu", "conll"):
        return sum(1 for _ in conll.sentences(lines(files.paths[0], longest), (0,), form == "conllu"))
    counts = [_count_lines(path, longest) for path in files.paths]
    if len(set(counts)) > 1:
        raise _unequal(files, longest)
    return counts[0]


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
            raise _unequal(files, longest)
        for one, text in zip(apart, texts, strict=True):
            yield _row(one, number, line, text)


def _read_table(
    files: Files, columns: ColumnNames, records: Records, noun: str, told: bool = False
) -> Iterator[CorpusRow]:
    """The rows of a table from its ``records``. The first is the header if a column has a name. ``noun`` stands for a
    column in messages. If ``told``, rows with further columns are marked.
    """
    header: list[str] = []
    if any(isinstance(column, str) for column in columns.all):
        number, first, wrong = next(records, (1, [], ""))
        if wrong:
            raise DataError(f"{files.place('source', number)}: the names of the columns cannot be read: {wrong}")
        header = [cell.decode("utf-8", "replace") for cell in first]
    places = [_position(files, column, header) for column in columns.all]
    for number, cells, wrong in records:
        if len(cells) <= max(places):
            found, named = _counted(len(cells), noun), ", ".join(map(repr, columns.all))
            few = f"{found} found, at least {max(places) + 1} expected for columns {named}"
            yield _unusable(files, number, wrong or few)
        else:
            row = _row(files, number, *_sides([cells[place] for place in places], columns))
            yield replace(row, further=True) if told and len(cells) > len(places) else row


def _read_memory(files: Files, columns: ColumnNames | None, every: Iterator[bytes]) -> Iterator[CorpusRow]:
    units, texts = service("units of a translation memory"), service("texts of a unit")
    for number, unit in enumerate(units(every, files.path or ""), 1):
        if columns is None or columns.labels or columns.source is None or columns.target is None:
            raise DataError(
                f"{files.path} has texts in {', '.join(map(repr, unit)) or 'no language'}: choose two languages, "
                'data.columns = {source = "de", target = "en"}'
            )
        sources, targets = (texts(unit, str(each)) for each in columns.all)
        if not sources or not targets:
            found = ", ".join(map(repr, unit)) or "none"
            yield _unusable(files, number, f"languages {' and '.join(map(repr, columns.all))} expected, {found} found")
        for source in sources:
            for target in targets:
                yield _row(files, number, source.encode(), target.encode())


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _read_json_lines(files: Files, columns: ColumnNames, every: Iterator[bytes]) -> Iterator[CorpusRow]:
    _check_keys(files, columns, "JSON lines")
    for number, line in enumerate(every, 1):
        try:
            record = json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError) as error:
            yield _unusable(files, number, f"not a usable JSON object: {error}")
            continue
        # An escape such as \\ud800 is valid JSON but no character; it is treated like an undecodable byte.
        bad = _invalid(line)
        for row in _record_rows(files, columns, number, record):
            problem = None if bad is None else _undecodable(files, "source", number, bad)
            yield replace(row, problem=row.problem or problem)


def _read_parquet(files: Files, columns: ColumnNames) -> Iterator[CorpusRow]:
    _check_keys(files, columns, "Parquet files")
    records = service("records of a Parquet file")
    for number, record in enumerate(records(stored(files.path or ""), [*map(str, columns.all)]), 1):
        yield from _record_rows(files, columns, number, record)


def _check_keys(files: Files, columns: ColumnNames, what: str) -> None:
    for column in columns.all:
        if isinstance(column, int):
            raise DataError(
                f"{what} have names, so column {column} of columns finds nothing in {files.path}: give a key"
            )


def _record_rows(files: Files, columns: ColumnNames, number: int, record: Any) -> Iterator[CorpusRow]:
    """The rows of a record, a table of values by name: one for each target. A record without the expected names and
    strings gives one malformed row.
    """
    try:
        labels = [_label(record[key]) for key in columns.labels]
        source, targets = _texts(record, columns)
    except KeyError:
        found = ", ".join(map(repr, record)) if record else "no key"
        yield _unusable(files, number, f"keys {', '.join(map(repr, columns.all))} expected, {found} found")
        return
    except TypeError as error:
        yield _unusable(files, number, f"not a usable JSON object: {error}")
        return
    for target in targets or [[]]:
        encoded = [text.encode("utf-8", "surrogatepass") for text in [*labels, *source, *target]]
        yield _row(files, number, *_sides(encoded, columns))


def _unusable(files: Files, number: int, detail: str) -> CorpusRow:
    return CorpusRow(number, "", problem=Problem("malformed", files.place("source", number), detail))


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


def _read_lexicon(files: Files, columns: ColumnNames | None, every: Iterator[bytes]) -> Iterator[CorpusRow]:
    if columns not in (None, TSV_COLUMNS):
        raise DataError(f"{files.path} has a word and its pronunciations, and no other columns: leave columns out")
    for number, word, pronunciations in service("entries of a dictionary")(every):
        if not pronunciations:
            problem = Problem("malformed", files.place("source", number), "a word without a pronunciation")
            yield CorpusRow(number, "", problem=problem)
        for pronunciation in pronunciations:
            yield _row(files, number, word, pronunciation)


def _read_trees(files: Files, columns: ColumnNames, every: Iterator[bytes]) -> Iterator[CorpusRow]:
    names = ("words", "pos", "tree")
    places = [_position(files, column, names) for column in columns.all]
    read = service("constituents")
    for number, line in enumerate(every, 1):
        try:
            leaves = read(line.decode("utf-8", "replace")).leaves
        except UserError as error:
            yield CorpusRow(number, "", problem=Problem("malformed", files.place("source", number), str(error)))
            continue
        fields = " ".join(leaf.word for leaf in leaves), " ".join(leaf.pos for leaf in leaves)
        values = [*(field.encode() for field in fields), line]
        if max(places) >= len(values):
            raise DataError(
                f"{files.path} has no column {max(places)}: its columns are 0 (words), 1 (pos) and 2 (tree)"
            )
        yield _row(files, number, *_sides([values[place] for place in places], columns))


def _texts(record: Any, columns: ColumnNames) -> tuple[list[str], list[list[str]]]:
    """The source of a JSON object, as a list of one string (empty if there is no column for it), and a list of one
    string for each target (empty if there is no column). A source that is an array of strings, such as the sentences of
    a document, becomes one string, with a space between them.

    Raises KeyError for a missing key, and TypeError for values that are neither strings nor arrays of strings.
    """
    given = "" if columns.source is None else record[columns.source]
    if isinstance(given, list) and all(isinstance(text, str) for text in given):
        given = " ".join(given)
    source = [] if columns.source is None else [given]
    target = [] if columns.target is None else record[columns.target]
    targets = target if isinstance(target, list) else [target]
    if not all(isinstance(text, str) for text in [*source, *targets]) or (columns.target is not None and not targets):
        names = " and ".join(map(str, columns.all[len(columns.labels) :]))
        raise TypeError(f"{names} must be strings, or arrays of strings")
    return source, [[text] for text in targets]


def _sides(fields: Sequence[bytes], columns: ColumnNames) -> tuple[bytes | None, bytes | None]:
    """Divides the fields of ``columns.all`` into the source (its columns joined by tabs) and the target; None for a
    side that the columns do not name. Tabs and line breaks inside labels become spaces.
    """
    sources = len(columns.sources)
    labels = [re.sub(rb"[\t\r\n]", b" ", field) for field in fields[: len(columns.labels)]]
    source = b"\t".join([*labels, *fields[len(labels) : sources]])
    return source if sources else None, None if columns.target is None else fields[sources]


def _label(value: object) -> str:
    """Reads a label from a JSON value: a string unchanged, a number or a boolean as JSON writes it. Raises TypeError
    for any other value.
    """
    if not isinstance(value, (str, bool, int, float)):
        raise TypeError(f"a label must be a string or a number, not {type(value).__name__}")
    return value if isinstance(value, str) else json.dumps(value)


def _row(files: Files, number: int, source: bytes | None, target: bytes | None) -> CorpusRow:
    """The row of a line's bytes. If a side is not UTF-8, the row has the problem "undecodable"."""
    try:
        return CorpusRow(number, _decoded(source), _decoded(target))
    except UnicodeDecodeError as error:
        side: Side = "source" if source is not None and _invalid(source) else "target"
        problem = _undecodable(files, side, number, error)
        return CorpusRow(number, _decoded(source, "replace"), _decoded(target, "replace"), problem)


def _decoded(text: bytes | None, errors: str = "strict") -> str | None:
    return None if text is None else text.decode("utf-8", errors)


def _undecodable(files: Files, side: Side, number: int, error: UnicodeDecodeError) -> Problem:
    return Problem("undecodable", files.place(side, number), undecodable(error))


def _invalid(line: bytes) -> UnicodeDecodeError | None:
    """The error of the first bytes that are not UTF-8; None if all are."""
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return error
    return None


def _position(files: Files, column: str | int, header: Sequence[str]) -> int:
    """The number of a column from 0: ``column`` itself if it is a number, otherwise its place in the header. Raises
    DataError if the header does not have it.
    """
    if isinstance(column, int):
        return column
    if column not in header:
        named = f"its columns are {', '.join(map(repr, header))}" if header else "its columns have numbers, from 0"
        raise DataError(f"{files.path} has no column {column!r}: {named}")
    return header.index(column)


def _count_lines(path: Stored, longest: int) -> int:
    return sum(1 for _ in lines(path, longest))


def _unequal(files: Files, longest: int) -> DataError:
    source, *targets = (_count_lines(path, longest) for path in files.paths)
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
