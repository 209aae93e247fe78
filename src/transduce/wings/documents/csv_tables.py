"""CSV tables (RFC 4180). The first line tells the separator: a comma, a semicolon, a bar or a tab, whichever it has
most; or the line "sep=;" of Excel, which is no record.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from itertools import chain

SEPARATORS = ",;|\t"
DECLARED = re.compile(r"(?:sep=(.))?\s*", re.IGNORECASE)


def separator_of(first: str) -> tuple[str, bool]:
    """The separator of a table with this first line, and whether the line is only there to tell it."""
    declared = DECLARED.fullmatch(first)
    if declared is not None and declared[1]:
        return declared[1], True
    return max(SEPARATORS, key=first.count), False


def records(lines: Iterable[bytes], longest: int) -> Iterator[tuple[int, list[bytes], str]]:
    """Yields (number of its first line from 1, cells, "") for each record that is not empty. A record that cannot be
    read has no cells, and a text that says why: a quote in the middle of a cell, or a cell of more than ``longest``
    characters, which is probably a quote that nothing closes.

    Bytes that are not UTF-8 are kept. A line break inside a quoted cell becomes a space.
    """
    csv.field_size_limit(max(longest, csv.field_size_limit()))
    decoded = (line.decode("utf-8", "surrogateescape") + "\n" for line in lines)
    first = next(decoded, "")
    separator, alone = separator_of(first)
    reader = csv.reader(decoded if alone else chain([first], decoded), delimiter=separator, strict=True)
    while True:
        number = reader.line_num + 1 + alone
        try:
            record = next(reader, None)
        except csv.Error as error:
            yield number, [], str(error)
            continue
        if record is None:
            return
        if record:
            yield number, [cell.replace("\n", " ").encode("utf-8", "surrogateescape") for cell in record], ""
