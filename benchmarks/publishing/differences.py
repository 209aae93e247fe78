"""The tables of a comparison: for each metric, the systems' scores and their differences from other systems."""

from __future__ import annotations

from publishing.rows import effort_in_words, written_scores
from transduce.records.record import MeasuredDifference, MeasuredSystem, PrintedTable, Record


def difference_tables(record: Record) -> list[PrintedTable]:
    """A table for each metric of a record of ``transduce compare``. Each system that was subtracted has a column."""
    metrics = dict.fromkeys(each.metric for each in record.differences)
    return [_table(record, metric) for metric in metrics]


def _table(record: Record, metric: str) -> PrintedTable:
    found = [each for each in record.differences if each.metric == metric]
    subtracted = dict.fromkeys(each.other for each in found)
    cells = {(each.one, each.other): _cell(each) for each in found}
    rows = [
        (
            system.name,
            _work(system),
            written_scores([system.scores[metric]]),
            *(cells.get((system.name, other), "–") for other in subtracted),
        )
        for system in record.systems
    ]
    columns = ("system", "work", metric, *(f"difference from {other}" for other in subtracted))
    return PrintedTable(metric, columns, tuple(rows))


def _cell(difference: MeasuredDifference) -> str:
    interval = f"{difference.low:+.2f} to {difference.high:+.2f}"
    return f"{difference.value:+.2f} ({interval}), p {difference.adjusted_p:.3f}"


def _work(system: MeasuredSystem) -> str:
    return " + ".join(effort_in_words(each) for each in system.models) or "–"
