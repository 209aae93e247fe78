"""Tables (.csv, .tsv) and JSON lines as documents: one column has the texts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import partial

from transduce.core.errors import DataError
from transduce.core.registry import alternatives
from transduce.wings.documents.csv_tables import separator_of
from transduce.wings.documents.document import Document, Edit, Parts, Spliced, Unit, has_words, joined, margins
from transduce.wings.documents.encoded import decoded

USUAL = ("source", "text")  # the names of a column that is read without being asked for
Cell = tuple[int, int, str]  # where it begins and ends, and its text
SPACE = re.compile(r"[ \t\n\r]*")


def parse_csv(content: bytes, name: str, column: str | None) -> Document:
    """The document of a CSV table. The first line tells the separator, and the names of the columns unless ``column``
    is a number. Raises DataError for a quote that nothing closes, and for a column that does not exist.
    """
    text, encode = decoded(content, name)
    first = text.split("\n", 1)[0]
    separator, alone = separator_of(first)
    rows = list(_rows(text, separator, name, len(first) + 1 if alone else 0))
    return Spliced(text, [*_table(rows, column, name, partial(_quoted, separator))], encode)


def parse_tsv(content: bytes, name: str, column: str | None) -> Document:
    """The document of a table with tabs, whose cells have no quotes."""
    text, encode = decoded(content, name)
    rows, place = list[list[Cell]](), 0
    for line in text.split("\n"):
        cells, start = list[Cell](), place
        for cell in line.removesuffix("\r").split("\t"):
            cells.append((start, start + len(cell), cell))
            start += len(cell) + 1
        rows += [cells] if line.strip("\r") else []
        place += len(line) + 1
    return Spliced(text, [*_table(rows, column, name, lambda new, _: re.sub(r"[\t\r\n]", " ", new))], encode)


def parse_json_lines(content: bytes, name: str, column: str | None) -> Document:
    """The document of JSON lines; ``column`` is the key of the texts. Raises DataError for a line that is no object,
    or whose text is no string.
    """
    text, encode = decoded(content, name)
    edits, place = list[Edit](), 0
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            values = _values(line, f"{name}:{number}")
            column = column or next((key for key in USUAL if key in values), None)
            if column not in values:
                raise DataError(f"{name}:{number}: {_unnamed(column, list(values))}")
            start, end, value = values[column]
            if not isinstance(value, str):
                raise DataError(f"{name}:{number}: {column} = {line[start:end][:60]}: a text was expected")
            if has_words([value]):
                edits.append(Edit(place + start, place + end, [Unit([value], _as_json)]))
        place += len(line) + 1
    return Spliced(text, edits, encode)


def _as_json(parts: Parts) -> str:
    return json.dumps(joined(parts), ensure_ascii=False)


def _values(line: str, place: str) -> dict[str, tuple[int, int, object]]:
    """The values of an object by their keys, each with where it begins and ends."""
    decoder, found = json.JSONDecoder(), dict[str, tuple[int, int, object]]()
    try:
        if not isinstance(json.loads(line), dict):
            raise DataError("it is no object")
        at = SPACE.match(line, line.index("{") + 1).end()  # type: ignore[union-attr]
        while line[at] != "}":
            key, at = decoder.raw_decode(line, at)
            start = SPACE.match(line, line.index(":", at) + 1).end()  # type: ignore[union-attr]
            value, at = decoder.raw_decode(line, start)
            found[key] = start, at, value
            at = SPACE.match(line, at).end()  # type: ignore[union-attr]
            at = SPACE.match(line, at + (line[at] == ",")).end()  # type: ignore[union-attr]
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: {line.strip()[:60]!r}: an object of JSON was expected: {error}") from None
    return found


def _rows(text: str, separator: str, name: str, place: int) -> Iterator[list[Cell]]:
    """Yields the cells of each record of a table that begins at ``place``."""
    cell = re.compile(
        rf'("(?:[^"]|"")*"|[^{re.escape(separator)}\r\n"][^{re.escape(separator)}\r\n]*|)({re.escape(separator)}|\r?\n|\r|\Z)'
    )
    cells = list[Cell]()
    while place < len(text):
        found = cell.match(text, place)
        if found is None:
            line = text.count("\n", 0, place) + 1
            raise DataError(
                f"{name}:{line}: the cell {text[place : place + 40]!r} has a quote that nothing closes: mend it"
            )
        raw = found[1]
        value = raw[1:-1].replace('""', '"') if raw.startswith('"') else raw
        cells.append((found.start(1), found.end(1), value))
        place = found.end()
        if found[2] != separator:
            yield cells
            cells = []
    if cells:
        yield cells


def _table(rows: Sequence[Sequence[Cell]], column: str | None, name: str, write: object) -> Iterator[Edit]:
    if not rows:
        return
    header = [cell.strip() for _, _, cell in rows[0]]
    place, body = _chosen(header, column, name)
    for row in rows[1 if body else 0 :]:
        if len(row) > place and has_words([row[place][2]]):
            start, end, cell = row[place]
            yield Edit(start, end, [_cell(cell, write)])


def _cell(cell: str, write: object) -> Unit:
    """The unit of a cell, without white space around it."""
    before, after = margins(cell)

    def whole(parts: Parts) -> str:
        text = cell[:before] + joined(parts) + cell[len(cell) - after :]
        return str(write(text, cell))  # type: ignore[operator]

    return Unit([cell.strip()], whole)


def _quoted(separator: str, text: str, before: str) -> str:
    """A cell as CSV writes it: in quotes where that is needed."""
    needed = any(sign in text for sign in (separator, '"', "\n", "\r"))
    return '"' + text.replace('"', '""') + '"' if needed else text


def _chosen(header: Sequence[str], column: str | None, name: str) -> tuple[int, bool]:
    """The index of a column, and whether the first row has names."""
    if column is not None and column not in header and column.isdecimal():
        if int(column) >= len(header):
            raise DataError(f"{name} has no column {column}: its columns are 0 to {len(header) - 1}")
        return int(column), False
    if column is None and len(header) == 1:
        return 0, header[0].lower() in USUAL
    wanted = column or next((each for each in USUAL if each in header), None)
    if wanted not in header:
        raise DataError(f"{name}: {_unnamed(wanted, header)}")
    return list(header).index(str(wanted)), True


def _unnamed(column: str | None, known: Sequence[str]) -> str:
    if column is None:
        return f"choose the column of the texts with --column: {', '.join(map(repr, known))}"
    return f"there is no column {column!r}{alternatives(column, known)}"
