"""The units of texts for comparison, and their display in tables."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

from transduce.core.errors import UserError

SPLITS: dict[str, Callable[[str], Sequence[str]]] = {"characters": tuple, "words": str.split}
"""Splits a text by the name of its units. Both keep letters unchanged: no lower case, no normalisation."""


def canonical(text: str) -> str:
    """The text in Unicode's form NFC, in which all metrics compare texts: a letter with an accent is one character,
    whether a file or a tokenizer composes them or not. Case and white space stay.
    """
    return unicodedata.normalize("NFC", text)


def split(text: str, units: str) -> Sequence[str]:
    """The units of a text; ``units`` is "characters" or "words" (between white space). Raises UserError for another
    name.
    """
    if units not in SPLITS:
        raise UserError(f"units {units!r}: expected {' or '.join(SPLITS)}")
    return SPLITS[units](text)


def shown(unit: object) -> str:
    """A unit as text for a table: a space becomes ␣, other unprintable characters become escapes such as \\n.

    A combining accent at the beginning gets a circle to stand on.
    """
    text = str(unit).replace(" ", "␣")
    visible = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
    return f"◌{visible}" if visible and unicodedata.combining(visible[0]) else visible


def columns(text: str) -> int:
    """The number of columns that a text takes on a terminal: two for a wide character, none for a combining accent, one
    for any other.
    """
    wide = (0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in "WF") for each in text)
    return sum(wide)


def padded(text: str, width: int, align: str = "<") -> str:
    """A text padded with spaces to ``width`` columns of a terminal: < aligns left, > right, ^ in the middle. A wider
    text stays unchanged.
    """
    return f"{text:{align}{max(0, width - columns(text) + len(text))}}"


def one_line(text: str) -> str:
    """The text with each tab and line break replaced by a space, so that it fits in one column of one row."""
    return text.replace("\t", " ").replace("\r", " ").replace("\n", " ")


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows as lines of text in which the columns are aligned."""
    widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(padded, row, widths)).rstrip() for row in rows]
