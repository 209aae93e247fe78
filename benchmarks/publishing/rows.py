"""Rows of the tables: the contents of a record in words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from transduce.core import registry
from transduce.core.config.errors import shown
from transduce.core.protocols import can
from transduce.training.counted import Counted
from transduce.wings.records.changes import as_shipped, changed_since, choices, own_files
from transduce.wings.records.machine import Machine
from transduce.wings.records.record import Change, Figure, MeasuredSystem, Record, TrainedModel

MOST_CHANGES = 4  # changes that a note lists at most; the record has all


@dataclass(frozen=True)
class ResultRow:
    """A row: the model, its scores by metric, the work of training, the source of the figure, its machine, and notes.

    ``data`` names the training data if the recipe leaves them open. ``shipped`` is True if the model is one run of
    ``recipe`` with the recipe's own settings. Then the recipe's header may show the score. ``older`` names the settings
    that the recipe has changed since. ``doubt`` says that no commit has the code behind the figure. ``record`` is the
    name of the record's file.
    """

    recipe: str
    model: str
    parameters: str
    split: str
    scores: dict[str, str]
    work: str
    machine: str
    source: str
    notes: tuple[str, ...] = ()
    data: str = ""
    shipped: bool = False
    older: str = ""
    doubt: str = ""
    date: str = ""
    record: str = ""


def rows_of_record(file: Path, record: Record) -> list[ResultRow]:
    """A row for each system of a record. Systems that differ only in the seed share a row."""
    groups: dict[str, list[MeasuredSystem]] = {}
    for system in record.systems:
        groups.setdefault(_settings(system), []).append(system)
    return [_row(file, record, systems) for systems in groups.values()]


# --------------------------------------------------------------------- records


def _row(file: Path, record: Record, systems: Sequence[MeasuredSystem]) -> ResultRow:
    models = systems[0].models
    changes = {key: change for each in models for key, change in choices(each).items()}
    older = "; ".join(filter(None, (older_recipe(each) for each in models)))
    search = other_search(systems[0])
    seeds = sorted({each.seed for system in systems for each in system.models})
    notes = (
        f"older recipe: {older}" if older else "",
        f"changed: {changes_in_words(changes)}" if changes else "",
        f"searched with {search}" if search else "",
        _data(models),
        f"seeds {', '.join(map(str, seeds))}" if len(systems) > 1 else "",
        trained_elsewhere(models, record.machine),
        doubt_of(record),
    )
    machine = machine_in_words(record.machine)
    return ResultRow(
        recipe="+".join(each.recipe for each in models),
        model=" + ".join(f"`{each.recipe}`" for each in models) or systems[0].name,
        parameters=_count(sum(each.parameters for each in models)) if models else "",
        split=record.split,
        scores={name: written_scores([system.scores[name] for system in systems]) for name in systems[0].scores},
        work=" + ".join(effort_in_words(each) for each in models),
        machine=machine,
        source=f"[record](../benchmarks/results/records/{file.name}), {record.date}, {machine}",
        notes=tuple(filter(None, notes)),
        data=_data(models),
        shipped=len(models) == 1 and as_shipped(models[0]) and record.split == "test" and not search,
        older=older,
        doubt=doubt_of(record),
        date=record.date,
        record=file.stem,
    )


def _settings(system: MeasuredSystem) -> str:
    """A key that is equal for two seeds of one model. The key of a system without models is its name."""
    if not system.models:
        return system.name
    shared = [(each.recipe, sorted(choices(each).items())) for each in system.models]
    return json.dumps([shared, system.search], sort_keys=True, default=asdict)


def other_search(system: MeasuredSystem) -> str:
    """The settings of the search that differ from the settings of the (first) model's run, in words. May be empty."""
    own = system.models[0].configuration.get("search") if system.models else None
    if not isinstance(own, dict) or not isinstance(system.search, dict):
        return ""
    changed = {key: value for key, value in system.search.items() if own.get(key) != value}
    return ", ".join(f"{key} {_value(value)}" for key, value in changed.items())


def _data(models: Iterable[TrainedModel]) -> str:
    """The training files that the user named, for recipes without data of their own; in words."""
    own = [each for each in models if own_files(each.configuration)]
    files = dict.fromkeys(name for each in own if each.training_data for name in each.training_data.files)
    return f"trained on {', '.join(files)}" if files else ""


def trained_elsewhere(models: Iterable[TrainedModel], machine: Machine) -> str:
    """The processors on which models were trained, if the record was made on another one."""
    named = dict.fromkeys(each.processor for found in models for each in found.trainings if each.processor)
    others = [processor for processor in named if processor != machine.processor]
    return f"trained on {', '.join(others)}" if others else ""


def older_recipe(model: TrainedModel) -> str:
    """The settings that the shipped recipe has changed since the model was recorded, in words."""
    since = {key: replace(change, recipe=change.run, run=change.recipe) for key, change in changed_since(model).items()}
    return changes_in_words(since)


# ----------------------------------------------------------------------- words


def doubt_of(record: Record) -> str:
    """Why a figure may not be repeated, in words: no commit has the code that made it. Empty if its commit has it."""
    if not record.clean:
        return "code of no known commit" if record.commit is None else "code not as committed"
    unclean = any(training.clean is False for model in models_of(record) for training in model.trainings)
    return "code of training not as committed" if unclean else ""


def models_of(record: Record) -> list[TrainedModel]:
    """All models behind the figures of a record."""
    return [*record.models, *(model for system in record.systems for model in system.models)]


def source_of(name: str, record: Record) -> str:
    """The link to a record, with its date, machine, command, and doubt."""
    parts = [f"[Record](../benchmarks/results/records/{name}.json), {record.date}", machine_in_words(record.machine)]
    marked = f" **{doubt_of(record).capitalize()}.**" if doubt_of(record) else ""
    return f"{'; '.join(parts)}: `{record.command}`.{marked}"


def changes_in_words(changes: Mapping[str, Change]) -> str:
    """Each setting with the value of the recipe and the value of the run."""
    listed = [f"{key} {_value(change.recipe)} → {_value(change.run)}" for key, change in changes.items()]
    more = len(listed) - MOST_CHANGES
    return ", ".join([*listed[:MOST_CHANGES], *([f"{more} more"] if more > 0 else [])])


def written_scores(figures: Sequence[Figure]) -> str:
    """The value and its interval. For several seeds: their mean, the mean ends of their intervals, and the lowest and
    the highest value.
    """
    values = [each.value for each in figures]
    spread = f"seeds {_number(min(values))} to {_number(max(values))}" if len(figures) > 1 else ""
    ends = [(each.low, each.high) for each in figures if each.low is not None and each.high is not None]
    interval = f"{_number(fmean(low for low, _ in ends))} to {_number(fmean(high for _, high in ends))}" if ends else ""
    brackets = "; ".join(filter(None, (interval, spread)))
    return f"{_number(fmean(values))} ({brackets})" if brackets else _number(values[0])


def effort_in_words(model: TrainedModel, tokens: bool = True) -> str:
    """The updates, the target ``tokens`` and the minutes. Work comes before time, because machines differ fourfold."""
    effort = model.effort
    if effort is None:
        return "not known"
    counted = can(registry.find("Model", model.configuration["model"]["type"]), Counted)
    unit = ("pass" if effort.updates == 1 else "passes") if counted else "updates"
    read = "" if effort.tokens is None or not tokens else f", {_count(effort.tokens)} target tokens"
    return f"{effort.updates:,} {unit}{read}, {effort.minutes:.1f} minutes"


def machine_in_words(machine: Machine) -> str:
    """The processor, the threads, the measured speed of products, and the load, which slows a busy machine down."""
    threads = f"{machine.threads} thread{'s' * (machine.threads > 1)}"
    load = "" if machine.load is None else f", load {machine.load:.1f} on {machine.cores} cores"
    return (
        f"{machine.processor}, {threads}, {machine.float32_gflops:.0f} GFLOP/s "
        f"({machine.bfloat16_gflops:.0f} in bfloat16){load}"
    )


def _count(number: int) -> str:
    return f"{number / 1e6:.1f} M" if number >= 1e6 else f"{number:,}"


def _number(value: float) -> str:
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"


def _value(setting: Any) -> str:
    return "nothing" if setting is None else shown(setting)
