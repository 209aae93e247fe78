"""Makes records, from a run directory and from the machine and the code at hand."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from pathlib import Path

from safetensors import safe_open

from transduce.core.config import Table
from transduce.core.files import current_folder
from transduce.core.text_files import read_json
from transduce.data.corpora import DataError
from transduce.data.fingerprints import Fingerprint
from transduce.data.preparation import locate
from transduce.runs import code
from transduce.runs.history import read_history
from transduce.runs.layout import CHECKPOINTS, STATE, Checkpoint
from transduce.runs.run import Run
from transduce.wings.records.changes import nearest_recipe
from transduce.wings.records.machine import Machine
from transduce.wings.records.provenance import command_line, fingerprint_of_files, today, versions, without_folders
from transduce.wings.records.record import (
    Effort,
    MeasuredDifference,
    MeasuredSystem,
    PrintedTable,
    Record,
    TrainedModel,
    Training,
    Versions,
)

log = logging.getLogger("transduce")

NOT_SCORES = ("step", "steps", "what", "seconds", "tokens", "rank")  # in the state.json of a checkpoint


def new_record(
    command: str,
    split: str,
    systems: Sequence[MeasuredSystem] = (),
    tables: Sequence[PrintedTable] = (),
    differences: Sequence[MeasuredDifference] = (),
) -> Record:
    """A record that describes this machine and this code. Measures the machine, which takes about a second. Folders of
    absolute paths in ``split`` are left out.
    """
    own = code.code()
    return Record(
        command=command,
        date=today(),
        split=without_folders(split),
        machine=Machine.here(),
        versions=versions(),
        systems=tuple(systems),
        differences=tuple(differences),
        tables=tuple(tables),
        commit=own.commit,
        clean=own.clean,
    )


def trained_model(run: Path, checkpoint: Checkpoint = "best") -> TrainedModel:
    """Describes a run, and finds the recipe that is nearest to it. Raises FileNotFoundError if the directory is no run
    or lacks the checkpoint, and ConfigError if its config.toml is damaged.
    """
    opened = Run.open(run)
    weights = opened.weights(checkpoint)
    settings, facts = opened.settings, opened.tokenizers.facts
    recipe, difference = nearest_recipe(settings, facts, preferred=run.name)
    return TrainedModel(
        name=run.name,
        recipe=recipe,
        configuration=without_folders(settings),
        difference={key: without_folders(change) for key, change in difference.items()},
        facts=facts.sizes,
        seed=settings["training"]["seed"],
        parameters=count_parameters(weights),
        effort=effort_of(opened.path),
        training_data=_training_data(opened),
        validation=validation_scores(opened.path, checkpoint),
        trainings=tuple(map(_training, read_history(opened.path))),
    )


def validation_scores(run: Path, checkpoint: Checkpoint = "best") -> dict[str, float]:
    """The loss and the metrics that training measured for a checkpoint of a run on the validation data.

    Empty if there was no validation, and for the checkpoint ``last``.
    """
    state = {} if checkpoint == "last" else _state(run, checkpoint)
    return {name: value for name, value in state.items() if name not in NOT_SCORES}


def effort_of(run: Path) -> Effort | None:
    """The budget that a run's training has spent, as its checkpoint ``last`` has it. None if that is not there."""
    state = _state(run, "last")
    if "step" not in state:
        return None
    return Effort(state["step"], round(state.get("seconds", 0.0) / 60, 3), state.get("tokens"))


def count_parameters(weights: Path) -> int:
    """How many numbers the tensors of a safetensors file hold together."""
    with safe_open(weights, framework="pt") as file:
        return sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118


def _training(entry: Table) -> Training:
    """Converts a line of a run's history. ``processor`` is empty for a run of an early version."""
    program, *arguments = entry["command"]
    return Training(
        entry["time"],
        entry["step"],
        command_line("transduce" if Path(program).name == "__main__.py" else Path(program).name, arguments),
        entry.get("processor", ""),
        entry["threads"],
        Versions(entry["python"], entry["torch"], entry["transduce"]),
        entry.get("commit"),
        entry.get("clean"),
    )


def _state(run: Path, checkpoint: Checkpoint) -> Table:
    """The table that a checkpoint's state.json has; empty if there is none."""
    file = current_folder(run / CHECKPOINTS / checkpoint) / STATE
    return read_json(file) if file.exists() else {}


def _training_data(run: Run) -> Fingerprint | None:
    """The fingerprint of the training files; None, with a warning, if they cannot be read any more, and None if there
    are none.
    """
    try:
        files = locate(run.data, run.cache).train
        return None if files is None else fingerprint_of_files(files)
    except (DataError, OSError) as error:
        log.warning("the record has no fingerprint of the training data: %s", error)
        return None
