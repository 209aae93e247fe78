"""Reads a user's data as pairs: a table, two parallel files, or a folder of recordings or pictures.

Columns are found by their content: which has labels, which features, which names of files. A user's choice wins.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from transduce.core.errors import UserError
from transduce.core.registry import service
from transduce.data.addresses import stored
from transduce.data.corpora import ColumnNames, DataError, Files, format_of, lines
from transduce.data.rows import read
from transduce.wings.fitting.column_roles import choose_columns, has_header, roles

LOOKED_AT = 2000  # rows that columns are found by
SOUNDS = (".wav", ".flac", ".ogg", ".mp3", ".aiff")
PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff")
TABLES = ("*.tsv", "*.csv", "*.jsonl", "*.tsv.gz", "*.jsonl.gz")


Pair = tuple[str, str]


@dataclass(frozen=True)
class Columns:
    """The columns that a user chose: names, or numbers from 0. None and () stand for those found by content."""

    source: str | None = None
    target: str | None = None
    labels: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.source is not None or self.target is not None or bool(self.labels)

    @property
    def names(self) -> ColumnNames:
        return ColumnNames(_number(self.source), _number(self.target), tuple(map(_column, self.labels)))


@dataclass(frozen=True)
class Given:
    """The pairs of one split, in the order of the file. The source of a language model is empty. ``form`` says what the
    pairs are: "text", "tokens" (one tag for each word), "features" (features, a tab and a word), "trees", "sound" or
    "picture". ``notes`` are lines for people. ``columns`` are the settings ``data.columns`` that read them; None stands
    for the defaults of the format.
    """

    pairs: list[Pair]
    form: str = "text"
    notes: list[str] = field(default_factory=list)
    columns: dict[str, object] | None = None

    def told(self, *notes: str) -> Given:
        """The same with notes before its own."""
        return replace(self, notes=[*notes, *self.notes])


def given(paths: Sequence[str], columns: Columns | None = None) -> Given:
    """Reads a split: one path of a table or a folder, or two paths of parallel text files.

    Raises UserError or DataError if the files cannot be read, if the columns cannot be told apart, or if there is no
    usable pair.
    """
    columns = columns or Columns()
    if len(paths) > 2 or not paths:
        raise UserError(f"{len(paths)} files: one table or folder was expected, or two files with one text a line")
    if len(paths) == 2:
        if columns:
            raise UserError(f"{paths[0]} and {paths[1]} are two files of one column each: leave the columns out")
        return _checked(_rows(Files(source=paths[0], target=paths[1]), None, paths[0]), paths[0])
    path = Path(paths[0]).expanduser()
    if path.is_dir():
        return _checked(_folder(path, columns), paths[0])
    return _checked(_table(paths[0], columns), paths[0])


def _checked(found: Given, name: str) -> Given:
    if not found.pairs:
        why = "".join(f"; {note}" for note in found.notes)
        raise UserError(f"{name}: no usable pair: a source and a target were expected on each line{why}")
    return found


# --------------------------------------------------------------------- tables


def _table(path: str, columns: Columns) -> Given:
    """The pairs of a file, with columns that are found by content unless the user chose them."""
    form = format_of(path)
    if columns:
        return _signals(_rows(Files(path=path), columns.names, path), path)
    if form in ("tsv", "csv"):
        return _signals(_separated(path, form), path)
    if form in ("jsonl", "parquet"):
        return _signals(_records(path), path)
    if form == "conllu":
        return _rows(Files(path=path), None, path, "tokens")
    if form == "conll":
        return _conll(path)
    if form == "tmx":
        return _memory(path)
    return _rows(Files(path=path), None, path, "trees" if form == "trees" else "text")


def _separated(path: str, form: str) -> Given:
    every = lines(stored(path))
    if form == "csv":
        records: Iterator[list[bytes]] = (cells for _, cells, wrong in service("records of a CSV table")(every, 10**6))
    else:
        records = (line.split(b"\t") for line in every)
    rows = [[cell.decode("utf-8", "replace") for cell in cells] for cells in islice(records, LOOKED_AT)]
    rows = [row for row in rows if any(cell.strip() for cell in row)]
    if not rows:
        raise UserError(f"{path} is empty: a source and a target were expected on each line")
    width = Counter(map(len, rows)).most_common(1)[0][0]
    full = [row for row in rows if len(row) >= width]
    header = full[0] if has_header(full, form == "csv") else None
    cells = list(zip(*(row[:width] for row in full[header is not None :]), strict=True))
    chosen, form_of_pairs, why = choose_columns(cells, path, header)
    named = [header[place] if header else place for place in chosen]
    notes = [f"{path}: the first line has the names of columns ({', '.join(header)})"] if header else []
    found = _rows(Files(path=path), _columns(named, form_of_pairs, len(cells)), path, form_of_pairs)
    return found.told(*notes, *why, *roles(path, named, found.pairs))


def _columns(named: Sequence[str | int], form: str, width: int) -> ColumnNames:
    if form == "features":
        source, target, features = named
        return ColumnNames(source, target, (features,))
    if len(named) == 1:
        return ColumnNames(target=named[0])
    source, target = named
    return ColumnNames(source, target)


def _records(path: str) -> Given:
    """JSON lines or Parquet: by the keys "source" and "target", or the two keys whose values are texts."""
    if format_of(path) == "parquet":
        return _rows(Files(path=path), None, path)
    try:
        seen = [json.loads(line) for line in islice(lines(stored(path)), LOOKED_AT)]
    except ValueError as error:
        raise DataError(f"{path} has a line that is no JSON: {error}") from error
    records = [record for record in seen if isinstance(record, dict)]
    keys = list(dict.fromkeys(key for record in records for key in record))
    if {"source", "target"} <= set(keys):
        return _rows(Files(path=path), None, path)
    texts = [key for key in keys if all(isinstance(record.get(key), str | list) for record in records)]
    if len(texts) not in (1, 2):
        raise UserError(
            f"{path} has the keys {', '.join(map(repr, keys)) or 'of no object'}: choose two, --source KEY --target KEY"
        )
    columns = [[str(record[key]) for record in records] for key in texts]
    chosen, _, why = choose_columns(columns, path, texts)
    named = [texts[place] for place in chosen]
    found = _rows(Files(path=path), _columns(named, "text", len(texts)), path)
    return found.told(*why, *roles(path, named, found.pairs))


def _conll(path: str) -> Given:
    """A word and its tag on each line; the tag is in the last column."""
    words = (line.split() for line in lines(stored(path)))
    width = max((len(cells) for cells in islice(words, LOOKED_AT)), default=0)
    if width < 2:
        raise UserError(f"{path}: a word and its tag were expected on each line, and {width} columns were found")
    note = [] if width == 2 else [f"{path}: the words are in the first of {width} columns, the tags in the last"]
    found = _rows(Files(path=path), ColumnNames(0, width - 1), path, "tokens")
    return found.told(*note)


def _memory(path: str) -> Given:
    units = service("units of a translation memory")(lines(stored(path)), path)
    languages = list(dict.fromkeys(language for unit in islice(units, LOOKED_AT) for language in unit))
    if len(languages) != 2:
        raise UserError(
            f"{path} has texts in {', '.join(languages) or 'no language'}: choose two, --source de --target en"
        )
    found = _rows(Files(path=path), ColumnNames(*languages), path)
    return found.told(f"{path}: from {languages[0]} to {languages[1]}")


def _rows(files: Files, columns: ColumnNames | None, path: str, form: str = "text") -> Given:
    """All usable rows of the files; the notes count the others."""
    pairs, wrong = list[Pair](), Counter[str]()
    example: dict[str, str] = {}
    for row in read(files, columns):
        if row.problem is not None:
            kind: str = row.problem.kind
            example.setdefault(kind, f"{row.problem.place}: {row.problem.detail}")
        elif not (row.target or "").strip() or (row.source is not None and not row.source.strip()):
            kind = "empty"
            example.setdefault(kind, files.place("source", row.number))
        else:
            pairs.append((row.source or "", row.target or ""))
            continue
        wrong[kind] += 1
    told = [f"{count:,} {kind} lines are left out, the first at {example[kind]}" for kind, count in wrong.items()]
    if columns is not None and columns.labels:
        form = "features"
    named = None if columns is None else {key: value for key, value in vars(columns).items() if value not in (None, ())}
    return Given(pairs, form, [f"{path}: {line}" for line in told], named)


# --------------------------------------------------------------------- signals


def _signals(found: Given, path: str) -> Given:
    """The same pairs; if sources are names of recordings or pictures, their absolute paths."""
    endings = Counter(Path(source).suffix.lower() for source, _ in found.pairs[:LOOKED_AT])
    if found.form != "text" or not endings:
        return found
    (ending, count), beside = endings.most_common(1)[0], Path(path).expanduser().resolve().parent
    if ending not in (*SOUNDS, *PICTURES) or count < 0.9 * endings.total():
        return found
    form = "sound" if ending in SOUNDS else "picture"
    pairs = [(str(beside / source), target) for source, target in found.pairs]
    missing = [source for source, _ in pairs if not Path(source).exists()]
    if missing:
        raise UserError(f"{path} names {len(missing):,} files that do not exist, the first is {missing[0]}")
    return replace(found, pairs=pairs, form=form)


def _folder(folder: Path, columns: Columns) -> Given:
    """A folder of recordings or pictures: with a table of their names and texts, or with a folder for each label."""
    tables = sorted(file for pattern in TABLES for file in folder.glob(pattern))
    if len(tables) > 1:
        raise UserError(f"{folder} has {len(tables)} tables ({tables[0].name}, {tables[1].name} …): name one of them")
    if tables:
        found = _table(str(tables[0]), columns)
        if found.form not in ("sound", "picture"):
            raise UserError(f"{tables[0]} names no recordings or pictures: give the table itself if it has the data")
        return found
    labelled = [
        (file, each.name) for each in sorted(folder.iterdir()) if each.is_dir() for file in sorted(each.iterdir())
    ]
    for form, endings in (("sound", SOUNDS), ("picture", PICTURES)):
        pairs = [(str(file.resolve()), label) for file, label in labelled if file.suffix.lower() in endings]
        if pairs:
            left = len(labelled) - len(pairs)
            notes = [f"{folder}: the folder of a file is its label"]
            return Given(pairs, form, [*notes, *([f"{folder}: {left:,} other files are left out"] if left else [])])
    raise UserError(
        f"{folder}: expected a table of file names and texts in it (.tsv), or a folder of recordings or pictures for "
        "each label"
    )


def _number(column: str | None) -> str | int | None:
    return None if column is None else _column(column)


def _column(column: str) -> str | int:
    return int(column) if column.isdigit() else column
