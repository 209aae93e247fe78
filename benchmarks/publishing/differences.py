"""The tables of a comparison: for each metric, the systems' scores and their differences from other systems."""

from __future__ import annotations

from publishing.rows import effort_in_words, trained_elsewhere, written_scores
from transduce.wings.records.machine import Machine
from transduce.wings.records.record import MeasuredDifference, MeasuredSystem, PrintedTable, Record


def difference_tables(record: Record) -> list[PrintedTable]:
    """A table for each metric of a record of ``transduce compare``. Each system that others are compared with has a
    column. Several seeds share a row.
    """
    metrics = dict.fromkeys(each.metric for each in record.differences)
    return [_table(record, metric) for metric in metrics]


def _table(record: Record, metric: str) -> PrintedTable:
    found = [each for each in record.differences if each.metric == metric]
    subtracted = dict.fromkeys(each.other for each in found)
    cells = {(each.one, each.other): _cell(each) for each in found}
    systems = {system.name: system for system in record.systems}
    rows = []
    for name in dict.fromkeys([*(each.one for each in found), *subtracted]):
        seeds = [systems[seed] for seed in ([name] if name in systems else name.split(","))]
        work, scores = _work(seeds[0], record.machine), written_scores([seed.scores[metric] for seed in seeds])
        rows.append((name, work, scores, *(cells.get((name, other), "–") for other in subtracted)))
    columns = ("system", "work", metric, *(f"difference from {other}" for other in subtracted))
    return PrintedTable(metric, columns, tuple(rows))


def _cell(difference: MeasuredDifference) -> str:
    interval = f"{difference.low:+.2f} to {difference.high:+.2f}"
    p = "p < 0.001" if difference.adjusted_p < 0.001 else f"p {difference.adjusted_p:.3f}"
    return f"{difference.value:+.2f} ({interval}), {p}"


def _work(system: MeasuredSystem, machine: Machine) -> str:
    """The work of training, and its processor if the record was made on another one."""
    work = " + ".join(effort_in_words(each) for each in system.models)
    return "; ".join(filter(None, (work, trained_elsewhere(system.models, machine)))) or "–"
