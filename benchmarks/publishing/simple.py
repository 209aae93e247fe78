"""The table of docs/simple.md: for each task, on how many sets transduce is better than the simple method.

The rows come from the records simple-TASK.json of benchmarks/simple.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from transduce.wings.records.record import PrintedTable, Record

OWN = "simple-"  # the names of these records begin so
VERDICTS = ("ours", "level", "simple", "–")


def joined(records: Mapping[str, Record], pattern: str) -> PrintedTable:
    """One table with the rows of all records whose names begin with ``pattern``. Their columns are equal."""
    tables = [table for name, record in records.items() if name.startswith(pattern) for table in record.tables]
    return PrintedTable("", tables[0].columns, tuple(row for table in tables for row in table.rows))


def summary(records: Mapping[str, Record]) -> str:
    """The table in Markdown."""
    lines = [
        ["task: simple method", "sets", "ours better", "level", "simple better", "not compared", "seconds"],
        ["---"] * 7,
    ]
    for name, record in records.items():
        if name.startswith(OWN):
            lines += [_row(table) for table in record.tables]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _row(table: PrintedTable) -> list[str]:
    better, simple, ours = (
        [row[table.columns.index(column)] for row in table.rows]
        for column in ("better", "seconds, simple", "seconds, ours")
    )
    counts = Counter(better)
    seconds = f"{_middle(simple)} and {_middle(ours)}"
    verdicts = [str(counts[each]) for each in VERDICTS]
    return [table.heading.removesuffix(", and transduce"), str(len(table.rows)), *verdicts, seconds]


def _middle(cells: Sequence[str]) -> str:
    """The median of numbers; a dash if there are none."""
    numbers = sorted(float(cell) for cell in cells if cell != "–")
    return f"{numbers[len(numbers) // 2]:.3g}" if numbers else "–"
