"""A glossary: terms of a source, and the words that its output must have for them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from transduce.answers.request import Request
from transduce.core.errors import DataError
from transduce.data.corpora import text_lines
from transduce.search.constraints.base import Constraints

UNSPACED = re.compile(r"[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")  # scripts without spaces
Units = tuple[str, ...]


@dataclass(frozen=True)
class Glossary:
    """The terms by their units in lower case. Each has its own spelling, and the forms of its translation, of which one
    is enough.

    A term is found as whole words, the longest first. One in small letters is found in any case, any other only as it
    is written.
    """

    terms: Mapping[Units, Sequence[tuple[Units, tuple[str, ...]]]]

    @classmethod
    def read(cls, path: Path) -> Glossary:
        """The glossary of a TSV file: a term, a tab and its translation; further columns are other forms of it. Lines
        without text, and lines that begin with "#", are left out. Raises DataError, which names the line, for any
        other.
        """
        rows = ((f"{path}:{n}", line.split("\t")) for n, line in enumerate(text_lines(path), 1) if _is_row(line))
        return cls._of(rows, str(path))

    @classmethod
    def of(cls, rows: Iterable[Sequence[str]]) -> Glossary:
        """The glossary of rows, each of which has a term and one form of its translation or more. Raises DataError,
        which counts the rows from 1, for any other.
        """
        return cls._of(((f"glossary, row {number}", row) for number, row in enumerate(rows, 1)), "the glossary")

    @classmethod
    def _of(cls, rows: Iterable[tuple[str, Sequence[str]]], name: str) -> Glossary:
        terms: dict[Units, list[tuple[Units, tuple[str, ...]]]] = {}
        for place, row in rows:
            term, *forms = (cell.strip() for cell in row) if row else [""]
            units = units_of(term)
            if not units or not any(forms):
                shown = "\t".join(row)[:60]
                raise DataError(f"{place}: {shown!r}: a term, a tab and its translation were expected")
            terms.setdefault(_lower(units), []).append((units, tuple(filter(None, forms))))
        if not terms:
            raise DataError(f"{name} has no terms: each line has a term, a tab and its translation")
        return cls(terms)

    def forms(self, source: str) -> list[tuple[str, ...]]:
        """The forms for each term in a source, in order; a term that occurs again counts once."""
        units, found, place = units_of(source), dict[tuple[str, ...], None](), 0
        longest = max(map(len, self.terms))
        while place < len(units):
            for length in range(min(longest, len(units) - place), 0, -1):
                part = units[place : place + length]
                own = [forms for written, forms in self.terms.get(_lower(part), ()) if written in (part, _lower(part))]
                if own:
                    found |= dict.fromkeys(own[:1])
                    place += length - 1
                    break
            place += 1
        return list(found)

    def applied(self, request: Request) -> Request:
        """The request with the terms of its source among the phrases that it requires."""
        given, terms = request.constraints or Constraints(), self.forms(request.text)
        held = Constraints([*given.required, *terms], given.forbidden)
        return replace(request, constraints=held) if terms else request


def units_of(text: str) -> Units:
    """The words of a text. A sign is a unit of its own, and so is each letter of a script that writes no spaces."""
    found, word = list[str](), ""
    for letter in unicodedata.normalize("NFC", text) + " ":
        if not UNSPACED.match(letter) and (letter.isalnum() or unicodedata.category(letter).startswith("M")):
            word += letter
            continue
        found += [each for each in (word, letter.strip()) if each]
        word = ""
    return tuple(found)


def _is_row(line: str) -> bool:
    return bool(line.strip()) and not line.startswith("#")


def _lower(units: Units) -> Units:
    return tuple(unit.lower() for unit in units)
