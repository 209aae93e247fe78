"""Sentences with a word on each line and tags beside it, and an empty line between sentences.

CoNLL-U (Universal Dependencies): ten columns with names, between tabs; a line that opens with "#" is a comment, and
those of contractions ("3-4") and of words left out ("5.1") are not counted as words. Other CoNLL files (named
entities): any number of columns, between tabs or spaces, and no comments; "-DOCSTART-" alone opens a document and is no
sentence. A column of a sentence is a line of text, its values one space apart; white space within one is written "_".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

NAMES = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")


@dataclass(frozen=True)
class Sentence:
    """The columns wanted of a sentence whose first word stands on line ``number``; or at which line, and why, there are
    none."""

    number: int
    columns: tuple[bytes, ...]
    broken: tuple[int, str] | None = None


def sentences(lines: Iterable[bytes], places: Sequence[int], universal: bool) -> Iterator[Sentence]:
    """The sentences of a file, CoNLL-U where it is ``universal``, by the ``places`` of their columns, from 0."""
    words: list[tuple[int, list[str]]] = []
    for number, line in enumerate(lines, 1):
        # what is not UTF-8 passes through, to be told by who asked
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
    """The values between spaces; a no-break space is within one ("10 000")."""
    return [value for value in text.split(" ") if value]


def _sentence(words: Sequence[tuple[int, list[str]]], places: Sequence[int]) -> Iterator[Sentence]:
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
