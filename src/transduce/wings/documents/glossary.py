"""A glossary: terms of a source, and the words that its output must have for them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from transduce.answers.request import Request
from transduce.core.errors import DataError
from transduce.core.text_files import read_text
from transduce.search.constraints.phrases import Constraints
from transduce.wings.documents.csv_tables import records
from transduce_engine.phrases import UNSPACED

_UNSPACED = re.compile(f"[{UNSPACED}]")
NAMES = {"source": 0, "src": 0, "term": 0, "target": 1, "tgt": 1, "translation": 1, "case": 2}  # of columns
CASES = {"": None, "exact": False, "any": True}
LONGEST = 10_000  # characters of a cell
Units = tuple[str, ...]


@dataclass(frozen=True)
class Term:
    """A term as it is written, and the forms of its translation, of which one is enough. ``loose``: found in any
    case.
    """

    written: Units
    forms: tuple[str, ...]
    loose: bool

    @classmethod
    def of(cls, cells: Sequence[str], case: str = "") -> Term:
        """The term in the first of these cells, with the forms in the others. Raises DataError, which says what was
        expected, for any others.
        """
        term, *forms = map(str.strip, cells or [""])
        units = units_of(term)
        if not units or not any(forms):
            raise DataError(f"{chr(9).join(cells)[:60]!r}: a term, a tab and its translation were expected")
        if case.strip().lower() not in CASES:
            raise DataError(f"case = {case!r}: any or exact was expected, or nothing")
        loose = CASES[case.strip().lower()]
        return cls(units, tuple(filter(None, forms)), units == _lower(units) if loose is None else loose)


@dataclass(frozen=True)
class Glossary:
    """The terms by their units in lower case.

    A term is found as whole words, the longest first. One in small letters is found in any case, any other only as it
    is written, unless its row says so.
    """

    terms: Mapping[Units, Sequence[Term]]

    @classmethod
    def read(cls, path: Path) -> Glossary:
        """The glossary of a TSV or CSV file: a term, and its translation in the next column; further columns are other
        forms of it. If the first row names the columns "source" and "target", the forms stand in one cell, with "|"
        between them, a column "case" says "any" or "exact", and other columns are left out. Lines without text, and
        lines that begin with "#", are left out. Raises DataError, which names the line, for any other.
        """
        lines = read_text(path).splitlines()
        if path.suffix.lower() == ".csv":
            found = records((line.encode() for line in lines), LONGEST)
            rows = [(number, [cell.decode() for cell in cells] or [problem]) for number, cells, problem in found]
        else:
            rows = [(number, line.split("\t")) for number, line in enumerate(lines, 1)]
        kept = [(f"{path}:{n}", row) for n, row in rows if any(map(str.strip, row)) and not row[0].startswith("#")]
        return cls._of(kept, str(path), _places(kept[0][1]) if kept else None)

    @classmethod
    def of(cls, rows: Iterable[Sequence[str]]) -> Glossary:
        """The glossary of rows, each of which has a term and one form of its translation or more. Raises DataError,
        which counts the rows from 1, for any other.
        """
        return cls._of(((f"glossary, row {number}", row) for number, row in enumerate(rows, 1)), "the glossary")

    @classmethod
    def _of(
        cls, rows: Iterable[tuple[str, Sequence[str]]], name: str, places: Mapping[int, int] | None = None
    ) -> Glossary:
        terms: dict[Units, list[Term]] = {}
        for where, row in list(rows)[0 if places is None else 1 :]:  # after the row with the names
            try:
                term = Term.of(row) if places is None else _named(row, places)
            except DataError as error:
                raise DataError(f"{where}: {error}") from None
            terms.setdefault(_lower(term.written), []).append(term)
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
                own = [term.forms for term in self.terms.get(_lower(part), ()) if term.loose or term.written == part]
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
        if not _UNSPACED.match(letter) and (letter.isalnum() or unicodedata.category(letter).startswith("M")):
            word += letter
            continue
        found += [each for each in (word, letter.strip()) if each]
        word = ""
    return tuple(found)


def _places(names: Sequence[str]) -> Mapping[int, int] | None:
    """The places of the columns source (0), target (1) and case (2), if a row names the first two."""
    found = {NAMES[name.strip().lower()]: place for place, name in enumerate(names) if name.strip().lower() in NAMES}
    return found if {0, 1} <= found.keys() else None


def _named(row: Sequence[str], places: Mapping[int, int]) -> Term:
    cells = [row[places[which]] if which in places and places[which] < len(row) else "" for which in range(3)]
    return Term.of([cells[0], *cells[1].split("|")], cells[2])


def _lower(units: Units) -> Units:
    return tuple(unit.lower() for unit in units)
