"""A user's own series: a table of numbers with one row per step."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.core.registry import alternatives
from transduce.data.base import Split
from transduce.data.corpora import DataError, Splits
from transduce.data.origins import tsv_splits
from transduce.wings.recipes.origins.windows import Windows
from transduce.wings.signals.tokenizers.numbers import MISSING

NOTHING = ("", "na", "nan")  # cells without a number, in lower case


@dataclass(frozen=True)
class Series:
    """Windows on the table ``path``: a .csv or .tsv file, optionally .gz, with a header line and one row per step in
    order.

    ``columns`` (by default all) are the names of the channels to read. ``targets`` (by default the same) are the
    channels to forecast. If ``missing`` is True, a cell that is empty or has "NA" or "nan" is a missing number; set the
    same option of ``data.units``, and choose a model that reads gaps. ``prepare`` raises DataError, which names row and
    column, if a number is invalid, or missing without that option; also for a file that cannot be read, and for an
    unknown column.
    """

    path: str
    windows: Windows
    columns: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    missing: bool = False

    def prepare(self, folder: Path) -> Splits:
        content = _content(self.path)
        fingerprint = hashlib.sha256(content).hexdigest()[:12]  # a changed file of the same name is read again

        def lines() -> dict[Split, list[str]]:
            table = NumberTable.parse(content.decode("utf-8-sig", "replace"), self.path)
            columns = self.columns or table.header
            source = table.steps(columns, self.missing)
            target = table.steps(self.targets, self.missing) if self.targets else source
            return self.windows.lines(source, target, self.path)

        return tsv_splits(folder / fingerprint, lines)


@dataclass(frozen=True)
class NumberTable:
    """The fields of a table as text, under a header. ``numbers`` are the rows' line numbers in the file ``path``, from
    1; a row of several lines has the number of its last.
    """

    path: str
    header: tuple[str, ...]
    rows: list[list[str]]
    numbers: list[int]

    @classmethod
    def parse(cls, text: str, path: str) -> NumberTable:
        """The table of TSV text if ``path`` ends in .tsv or .tsv.gz, otherwise of CSV text. ``text`` is the content of
        that file. Raises DataError if a row has more or fewer columns than the header.
        """
        tabs = path.removesuffix(".gz").lower().endswith(".tsv")
        reader = csv.reader(io.StringIO(text.rstrip(), newline=""), delimiter="\t" if tabs else ",")
        header = tuple(field.strip() for field in next(reader, []))
        rows, numbers = [], []
        for row in reader:
            if len(row) != len(header):
                raise DataError(
                    f"{path}:{reader.line_num}: {len(row)} columns, and the header line names {len(header)}; a step "
                    "that is missing must be filled in"
                )
            rows.append(row)
            numbers.append(reader.line_num)
        return cls(path, header, rows, numbers)

    def steps(self, columns: Sequence[str], missing: bool = False) -> list[str]:
        """Each row's numbers in these columns as text, joined by commas; with ``missing``, "nan" for a cell without a
        number.

        Raises DataError if the table has no such column, or if any other cell is not a finite number.
        """
        for column in columns:
            if column not in self.header:
                raise DataError(f"{self.path} has no column {column!r}{alternatives(column, self.header)}")
        places = [(self.header.index(column), column) for column in columns]
        return [
            ",".join(self._number(row[place].strip(), line, column, missing) for place, column in places)
            for row, line in zip(self.rows, self.numbers, strict=True)
        ]

    def _number(self, text: str, line: int, column: str, missing: bool) -> str:
        if missing and text.lower() in NOTHING:
            return MISSING
        try:
            if math.isfinite(float(text)):
                return text
        except ValueError:
            pass
        raise DataError(
            f"{self.path}:{line}: column {column!r} has {text!r}, and a number was expected; fill in what is missing, "
            "name the columns to be read in data.origin.columns, or set data.origin.missing = true for a model that "
            "reads gaps"
        )


def _content(path: str) -> bytes:
    if not path.removesuffix(".gz").lower().endswith((".csv", ".tsv")):
        raise DataError(f"cannot tell the format of {path!r} from its name: expected .csv or .tsv, optionally with .gz")
    try:
        content = Path(path).expanduser().read_bytes()
        return gzip.decompress(content) if path.endswith(".gz") else content
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot read {path}: {error}") from error
