"""The record of an evaluation or a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from transduce.core.types import Example
from transduce.evaluation.systems import System
from transduce.metrics.significance import Interval
from transduce.runs.layout import Checkpoint
from transduce.wings.lab.comparison import Pair
from transduce.wings.records.making import new_record, trained_model
from transduce.wings.records.provenance import fingerprint_of_examples, without_folders
from transduce.wings.records.record import Figure, MeasuredDifference, MeasuredSystem, Record


def record_systems(
    command: str,
    corpus: str,
    systems: Sequence[System],
    intervals: Mapping[str, Mapping[str, Interval]],
    examples: Sequence[Example],
    checkpoint: Checkpoint = "best",
    pairs: Sequence[Pair] = (),
) -> Record:
    """A record of systems that were measured on the same examples of ``corpus``, with the ``command`` that measured
    them.

    ``intervals`` maps a system's name to the interval of each metric by name; a metric without one is left out. The
    record has each seed of a system on its own. It names a system after its run directories, joined by "+", or after
    its file of outputs. If two would have the same name, all get their longer names. ``checkpoint`` is the one that the
    runs were measured with. ``pairs`` are the significance tests between systems, if there were any. They name a system
    of several seeds after all of them, joined by ",".
    """
    single = [each for system in systems for each in system.seeds or [system]]
    short = [_short_name(system) for system in single]
    chosen = short if len(set(short)) == len(short) else [without_folders(system.name) for system in single]
    names = {system.name: name for system, name in zip(single, chosen, strict=True)}
    names |= {system.name: ",".join(names[seed.name] for seed in system.seeds) for system in systems if system.seeds}
    scored = fingerprint_of_examples(examples)
    return new_record(
        command,
        corpus,
        [
            MeasuredSystem(
                names[system.name],
                _figures(system, intervals[system.name]),
                scored,
                without_folders(dict(system.search)),
                tuple(trained_model(run, checkpoint) for run in system.runs),
            )
            for system in single
        ],
        differences=[_difference(pair, names) for pair in pairs],
    )


def _figures(system: System, intervals: Mapping[str, Interval]) -> dict[str, Figure]:
    return {
        each.name: Figure(each.score, *intervals[each.name], each.metric.signature)
        for each in system.statistics
        if each.name in intervals
    }


def _difference(pair: Pair, names: Mapping[str, str]) -> MeasuredDifference:
    found = pair.difference
    return MeasuredDifference(
        pair.metric,
        names[pair.one],
        names[pair.other],
        found.value,
        *found.interval,
        found.bootstrap_p,
        found.randomisation_p,
        pair.adjusted_p,
    )


def _short_name(system: System) -> str:
    """The names of a system's run directories, joined by "+", or the name of its file; without their folders."""
    return "+".join(run.name for run in system.runs) or Path(system.name).name
