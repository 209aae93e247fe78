"""Tells why a checkpoint is not imported: a toolkit that is not, and settings of a kind that theirs never have."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from transduce.core.config import TableView
from transduce.core.errors import UserError

Kind = Literal["count", "number", "flag", "word", "list"]
EXPECTED: dict[Kind, str] = {
    "count": "a whole number from 1 to 1,000,000",
    "number": "a finite number",
    "flag": "true or false",
    "word": "a word",
    "list": "a list",
}


def check_kinds(settings: TableView, kinds: Mapping[str, Kind], origin: object) -> None:
    """Raises UserError, which names the file, the key and the value, for a setting that is not of its kind. A setting
    that is missing, or null, has its default.
    """
    for name, kind in kinds.items():
        value = settings.get(name)
        if value is not None and not _is_of(value, kind):
            raise UserError(
                f"{origin}: {name} = {str(value)[:60]!r}: {EXPECTED[kind]} was expected; copy the file again"
            )


def _is_of(value: object, kind: Kind) -> bool:
    if kind == "flag" or isinstance(value, bool):
        return kind == "flag" and isinstance(value, bool)
    if kind == "count":
        return isinstance(value, int) and 1 <= value <= 1_000_000
    if kind == "number":
        return isinstance(value, int | float) and abs(value) < 1e15 and math.isfinite(value)
    return isinstance(value, str if kind == "word" else list)


def check_toolkit(folder: Path) -> None:
    """Raises UserError, with the reason, if the folder has the files of fairseq. Reads none of them."""
    if any(folder.glob("dict.*.txt")) and any(folder.glob("*.pt")):
        raise UserError(
            f"{folder} is a checkpoint of fairseq, which is not imported: its file is a pickle of Python objects (the "
            "arguments of its training), and unpickling them can run code; train a recipe on the same data, "
            "or translate with fairseq"
        )
