"""A user's own series: a table of numbers with one row per step."""

from __future__ import annotations

import codecs
import csv
import gzip
import hashlib
import io
import math
import re
import shlex
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Literal

from transduce.core.registry import alternatives
from transduce.data.base import Split
from transduce.data.corpora import DataError, Splits
from transduce.data.origins import tsv_splits
from transduce.wings.recipes.origins.windows import Windows
from transduce.wings.signals.tokenizers.numbers import MISSING

SEPARATORS = (";", ",", "\t", "|")
WAYS = ((".", ""), (",", ""), (".", ","), (",", "."), (".", " "), (",", " "), (".", "'"))  # decimal and thousands
ROWS = 50  # rows from which the form of a table is guessed
NOTHING = ("", "na", "nan", "n/a", "n.a.", "k.a.", "#n/a", "null", "none", "-", "–", "—", ".", "..", "…", "?")
"""Cells without a number, in lower case."""
DECLARED = re.compile(r"sep=(.)\r?\n", re.IGNORECASE)  # Excel's first line
SPACES, QUOTES = "[ \u00a0\u202f\u2009]", "['’]"
UNITS = re.compile(r"^[€$£¥₹]\s?|\s?[€$£¥₹%‰]$")


@dataclass(frozen=True)
class Series:
    """Windows on the table ``path``: a .csv or .tsv file, optionally .gz, with a header line and one row per step in
    order.

    ``columns`` (by default all) are the names of the channels to read. Columns of one name get numbers: "sold.1",
    "sold.2". ``targets`` (by default the same) are the channels to forecast. ``separator`` stands between the columns
    of a .csv file, ``decimal`` before the decimals of a number, and ``thousands`` between its groups of three digits:
    ";", "," and "." in most of Europe. A sign of money or "%" beside a number is left out. If ``missing`` is True, a
    cell that is empty or has "NA", "n/a", "-" or the like is a missing number; set the same option of ``data.units``,
    and choose a model that reads gaps.

    ``prepare`` raises DataError, which names row and column, if a number is invalid, or missing without that option;
    also for a file that cannot be read, and for an unknown column. Where the table looks as if it had another form, the
    error proposes the settings.
    """

    path: str
    windows: Windows
    columns: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    missing: bool = False
    separator: Literal[",", ";", "|"] = ","
    decimal: Literal[".", ","] = "."
    thousands: Literal["", ",", ".", " ", "'"] = ""

    def __post_init__(self) -> None:
        if self.decimal == self.thousands:
            raise DataError(f"decimal and thousands are both {self.decimal!r}: one of them was expected to differ")

    def prepare(self, folder: Path) -> Splits:
        content = _content(self.path)
        fingerprint = hashlib.sha256(content).hexdigest()[:12]  # a changed file of the same name is read again

        def lines() -> dict[Split, list[str]]:
            form = NumberForm(self.separator, self.decimal, self.thousands)
            table = NumberTable.parse(_decoded(content), self.path, form)
            columns = self.columns or table.header
            source = table.steps(columns, self.missing)
            target = table.steps(self.targets, self.missing) if self.targets else source
            return self.windows.lines(source, target, self.path)

        return tsv_splits(folder / fingerprint, lines)


@dataclass(frozen=True)
class NumberForm:
    """How a table writes numbers: what separates its columns, what stands before decimals, and what stands between
    groups of three digits ("" for nothing).
    """

    separator: str = ","
    decimal: str = "."
    thousands: str = ""

    def plain(self, text: str) -> str | None:
        """The number as Python writes it; None if the text is no finite number of this form."""
        whole, point, rest = UNITS.sub("", text).replace("\u2212", "-").partition(self.decimal)
        sign = {" ": SPACES, "'": QUOTES}.get(self.thousands, re.escape(self.thousands))
        if sign and re.search(sign, whole):
            few = 2 if self.thousands == "," else 3  # 1,23,456 in India
            if not re.fullmatch(rf"[+-]?\d{{1,3}}(?:{sign}\d{{{few},3}})*{sign}\d{{3}}", whole):
                return None
            whole = re.sub(sign, "", whole)
        number = whole + (point and ".") + rest
        try:
            return number if math.isfinite(float(number)) and "_" not in number else None
        except ValueError:
            return None


def proposal(text: str, given: NumberForm) -> str:
    """The settings with which more cells in the first rows of a table are numbers, for a message; "" if there are none.
    If two forms read equally many cells, and read them differently, both are told.
    """
    sample = "\n".join(text.split("\n", ROWS)[:ROWS])
    best, most = dict[tuple[str | None, ...], NumberForm](), _count(_numbers(sample, given))
    for separator in (given.separator, *SEPARATORS):
        for decimal, thousands in WAYS:
            found = _numbers(sample, form := NumberForm(separator, decimal, thousands))
            if _count(found) > most:
                best, most = {}, _count(found)
            if _count(found) == most and most and found != _numbers(sample, given):
                best.setdefault(found, form)
    told = [_settings(form, given) for form in best.values() if _count(_numbers(sample, given)) < most]
    return f"; more of its cells are numbers with {', or with '.join(told)}" if told else ""


def _settings(form: NumberForm, given: NumberForm) -> str:
    tabs = form.separator == "\t" != given.separator
    form = replace(form, separator=given.separator) if tabs else form
    changed = {each.name: getattr(form, each.name) for each in fields(form)}
    changed = {name: value for name, value in changed.items() if value != getattr(given, name)}
    told = ["--set " + shlex.quote(f'data.origin.{name}="{value}"') for name, value in changed.items()]
    return " ".join((["the suffix .tsv, because tabs separate its columns,"] if tabs else []) + told).rstrip(",")


def _numbers(text: str, form: NumberForm) -> tuple[str | None, ...]:
    """The numbers in the cells below the header, None for others; nothing unless all rows have as many cells as it."""
    header, *rows = [*csv.reader(io.StringIO(text, newline=""), delimiter=form.separator)] or [[]]
    if any(len(row) != len(header) for row in rows):
        return ()
    return tuple(form.plain(cell.strip()) for row in rows for cell in row)


def _count(numbers: Sequence[str | None]) -> int:
    return sum(number is not None for number in numbers)


@dataclass(frozen=True)
class NumberTable:
    """The fields of a table as text, under a header. ``numbers`` are the rows' line numbers in the file ``path``, from
    1; a row of several lines has the number of its last. ``advice`` is the end of a message about a wrong cell or
    column: the settings that the table seems to need.
    """

    path: str
    header: tuple[str, ...]
    rows: list[list[str]]
    numbers: list[int]
    form: NumberForm = NumberForm()
    advice: str = ""

    @classmethod
    def parse(cls, text: str, path: str, form: NumberForm = NumberForm()) -> NumberTable:
        """The table of TSV text if ``path`` ends in .tsv or .tsv.gz, otherwise of text with the form's separator.
        ``text`` is the content of that file. Raises DataError if a row has more or fewer columns than the header.
        """
        text, skipped = text.rstrip(), 0
        if declared := DECLARED.match(text):
            text, skipped, form = text[declared.end() :], 1, replace(form, separator=declared[1])
        if path.removesuffix(".gz").lower().endswith(".tsv"):
            form = replace(form, separator="\t")
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=form.separator)
        header, advice = _distinct([field.strip() for field in next(reader, [])]), proposal(text, form)
        rows, numbers = [], []
        for row in reader:
            if len(row) != len(header):
                raise DataError(
                    f"{path}:{reader.line_num + skipped}: {len(row)} columns, and the header line names {len(header)}; "
                    f"a step that is missing must be filled in{advice}"
                )
            rows.append(row)
            numbers.append(reader.line_num + skipped)
        return cls(path, header, rows, numbers, form, advice)

    def steps(self, columns: Sequence[str], missing: bool = False) -> list[str]:
        """Each row's numbers in these columns as text, joined by commas; with ``missing``, "nan" for a cell without a
        number.

        Raises DataError if the table has no such column, or if any other cell is not a finite number.
        """
        for column in columns:
            if column not in self.header:
                raise DataError(f"{self.path} has no column {column!r}{alternatives(column, self.header)}{self.advice}")
        places = [(self.header.index(column), column) for column in columns]
        return [
            ",".join(self._number(row[place].strip(), line, column, missing) for place, column in places)
            for row, line in zip(self.rows, self.numbers, strict=True)
        ]

    def _number(self, text: str, line: int, column: str, missing: bool) -> str:
        if missing and text.lower() in NOTHING:
            return MISSING
        if (number := self.form.plain(text)) is not None:
            return number
        raise DataError(
            f"{self.path}:{line}: column {column!r} has {text!r}, and a number was expected; fill in what is missing, "
            "name the columns to be read in data.origin.columns, or set data.origin.missing = true for a model that "
            f"reads gaps{self.advice}"
        )


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    """The names of columns, with numbers from 1 where several columns have one name."""
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        seen[name] += 1
        found.append(f"{name}.{seen[name]}" if names.count(name) > 1 else name)
    return tuple(found)


def _decoded(content: bytes) -> str:
    """The text of a table: UTF-8, UTF-16 with its mark, or what Windows wrote before in the west of Europe."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16", "replace")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace")


def _content(path: str) -> bytes:
    if not path.removesuffix(".gz").lower().endswith((".csv", ".tsv")):
        raise DataError(f"cannot tell the format of {path!r} from its name: expected .csv or .tsv, optionally with .gz")
    try:
        content = Path(path).expanduser().read_bytes()
        return gzip.decompress(content) if path.endswith(".gz") else content
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot read {path}: {error}") from error
