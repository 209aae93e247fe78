"""The record of a sweep."""

from __future__ import annotations

from transduce.core.errors import UserError
from transduce.runs.run import Run
from transduce.wings.lab.sweeps.measurement import Measurement
from transduce.wings.lab.sweeps.results import SweepResults
from transduce.wings.records.making import new_record, trained_model
from transduce.wings.records.provenance import fingerprint_of_examples
from transduce.wings.records.record import Figure, MeasuredSystem, Record


def record_sweep(command: str, results: SweepResults) -> Record:
    """A record of all finished cells of a sweep. ``command`` is its command line. Raises UserError if no cell is
    finished.
    """
    if not results.rows:
        raise UserError(f"{results.out} has no finished cell to record: see results.md there for the log of each")
    cells = [
        _measured(results, f"{row.variant.name}-seed{seed}", found)
        for row in results.rows
        for seed, found in row.cells.items()
    ]
    return new_record(command, results.question.split, cells)


def _measured(results: SweepResults, name: str, found: Measurement) -> MeasuredSystem:
    run = Run.open(results.out / "cells" / name)
    figures = {}
    for metric, value in found.metrics.items():
        low, high = found.intervals.get(metric, (None, None))
        figures[metric] = Figure(value, low, high, found.signatures[metric])
    examples = fingerprint_of_examples(run.examples(found.split))
    return MeasuredSystem(name, figures, examples, run.settings["search"], (trained_model(run.path),))
