"""CoNLL files: one word per line with its tags, and an empty line between sentences.

CoNLL-U (Universal Dependencies) has ten named columns, separated by tabs. Lines that begin with "#" are comments. Lines
of contractions ("3-4") and omitted words ("5.1") do not count as words. Other CoNLL files (named entities) have any
number of columns, separated by tabs or spaces, and no comments. In both, a line that begins a document, "-DOCSTART-"
between empty lines, is not a sentence. One column of a sentence becomes a line of text with spaces between the values.
Each white-space character inside a value becomes "_", and so does an empty value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

NAMES = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")


@dataclass(frozen=True)
class Sentence:
    """One sentence of a CoNLL file. ``number`` is the line of its first word, from 1. ``columns`` has a line of text,
    as bytes without a line end, for each requested column. Bytes that are not UTF-8 are kept.

    If a word has too few columns, ``columns`` is empty, and ``broken`` is the line number of the first such word and a
    description.
    """

    number: int
    columns: tuple[bytes, ...]
    broken: tuple[int, str] | None = None


def sentences(lines: Iterable[bytes], places: Sequence[int], universal: bool) -> Iterator[Sentence]:
    """Yields the sentences of a file, read as CoNLL-U if ``universal``. ``lines`` have no line ends.

    ``places`` are the requested columns, numbered from 0. Each becomes one line of text with spaces between its values.
    Nothing is raised for a sentence with too few columns: its ``broken`` is set.
    """
    words: list[tuple[int, list[str]]] = []
    for number, line in enumerate(lines, 1):
        # invalid UTF-8 is kept, so that the caller can report it
        text = line.decode("utf-8", "surrogateescape")
        if universal and (text.startswith("#") or re.match(r"\d+[-.]", text)):
            continue
        if text.strip():
            words.append((number, text.split("\t") if universal or "\t" in text else _spaced(text)))
        elif words:
            yield from _sentence(words, places)
            words = []
    if words:
        yield from _sentence(words, places)


def _spaced(text: str) -> list[str]:
    """The values between spaces. A no-break space is part of a value ("10 000")."""
    return [value for value in text.split(" ") if value]


def _sentence(words: Sequence[tuple[int, list[str]]], places: Sequence[int]) -> Iterator[Sentence]:
    """Yields the sentence of these words (line number, values), or nothing if they are the line "-DOCSTART-"."""
    first, needed = words[0][0], max(places) + 1
    if len(words) == 1 and words[0][1][0] == "-DOCSTART-":
        return
    for number, values in words:
        if len(values) < needed:
            columns_found = f"{len(values)} column{'' if len(values) == 1 else 's'}"
            numbers = ", ".join(map(str, places))
            detail = f"{columns_found} found, at least {needed} expected for columns {numbers}"
            yield Sentence(first, (), (number, detail))
            return
    columns = (" ".join(re.sub(r"\s", "_", values[place]) or "_" for _, values in words) for place in places)
    yield Sentence(first, tuple(column.encode("utf-8", "surrogateescape") for column in columns))
