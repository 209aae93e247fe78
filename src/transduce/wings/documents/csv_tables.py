"""CSV tables (RFC 4180). The first line tells the separator: a comma, a semicolon or a bar, whichever it has most."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from itertools import chain

SEPARATORS = ",;|"


def records(lines: Iterable[bytes], longest: int) -> Iterator[tuple[int, list[bytes], str]]:
    """Yields (number of its first line from 1, cells, "") for each record that is not empty. A record that cannot be
    read has no cells, and a text that says why: a quote in the middle of a cell, or a cell of more than ``longest``
    characters, which is probably a quote that nothing closes.

    Bytes that are not UTF-8 are kept. A line break inside a quoted cell becomes a space.
    """
    csv.field_size_limit(max(longest, csv.field_size_limit()))
    decoded = (line.decode("utf-8", "surrogateescape") + "\n" for line in lines)
    first = next(decoded, "")
    reader = csv.reader(chain([first], decoded), delimiter=max(SEPARATORS, key=first.count), strict=True)
    while True:
        number = reader.line_num + 1
        try:
            record = next(reader, None)
        except csv.Error as error:
            yield number, [], str(error)
            continue
        if record is None:
            return
        if record:
            yield number, [cell.replace("\n", " ").encode("utf-8", "surrogateescape") for cell in record], ""
