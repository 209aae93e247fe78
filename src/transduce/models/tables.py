"""Checks of counted tables that point into each other.

Weights may come from a stranger. A number that points outside of a table would end in an IndexError, in another
program's memory (the compiled library trusts its numbers), or in a loop without end. So each module with such tables
checks them once, when they are loaded, in time linear in their size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from transduce.core.errors import UserError

DEEPEST = 1000  # levels of a table: the order of n-grams, or the letters of a word


class TableError(UserError):
    """A counted table has a number that does not fit the others."""


class Tabulated(Protocol):
    """A module with tables that point into each other."""

    def check_tables(self) -> None:
        """Raises TableError unless the module can compute with its tables. Empty tables are right."""


def check(holds: bool, name: str, rule: str) -> None:
    """Raises TableError, which names the table and the rule, unless the rule holds."""
    if not holds:
        raise TableError(f"the table {name} is damaged: {rule} was expected")


def check_rows(expected: int, tables: Mapping[str, Tensor]) -> None:
    """Raises TableError unless all tables have this number of rows."""
    for name, table in tables.items():
        check(len(table) == expected, name, f"{expected} rows instead of {len(table)}")


def check_range(name: str, table: Tensor, least: int, most: int) -> None:
    """Raises TableError unless all numbers of the table are from ``least`` to ``most``."""
    if table.numel():
        low, high = (int(each) for each in torch.aminmax(table))
        check(least <= low and high <= most, name, f"numbers from {least} to {most} instead of {low} to {high}")


def check_ascending(name: str, table: Tensor) -> None:
    """Raises TableError unless each number is larger than the one before it."""
    check(bool((table[1:] > table[:-1]).all()), name, "ascending numbers")


def check_offsets(name: str, table: Tensor, groups: int, end: int) -> None:
    """Raises TableError unless the table divides the rows 0 to ``end`` - 1 of another one into ``groups``: its first
    number is 0, its last one is ``end``, and no number is smaller than the one before it.
    """
    check_rows(groups + 1, {name: table})
    check(bool((table[1:] >= table[:-1]).all()), name, "numbers that do not fall")
    check(int(table[0]) == 0 and int(table[-1]) == end, name, f"numbers from 0 to {end}")


def levels(name: str, parent: Tensor) -> list[int]:
    """The first row of each level of a tree whose rows are sorted by level, and the number of rows. ``parent`` is the
    row of each row's parent plus 1, or 0 at the first level, and never falls. Raises TableError for a row that does not
    come after its parent, and for more than ``DEEPEST`` levels.
    """
    check(bool((parent[1:] >= parent[:-1]).all()), name, "rows in the order of their parents")
    check(bool((parent <= torch.arange(len(parent), device=parent.device)).all()), name, "parents before their rows")
    starts = [0]
    while starts[-1] < len(parent):
        check(len(starts) <= DEEPEST, name, f"at most {DEEPEST} levels")
        starts.append(int(torch.searchsorted(parent, starts[-1], right=True)))
    return starts
