"""Runs that are made at once, from a model that is there already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import nn

from transduce.core import config
from transduce.core.errors import UserError
from transduce.core.files import replace_folder
from transduce.data.preparation import Tokenizers
from transduce.runs.checkpoints import save_weights_alone
from transduce.runs.layout import CHECKPOINTS, CONFIG, Checkpoint
from transduce.runs.run import Run


def check_empty(folder: Path) -> None:
    """Raises UserError if the folder exists and has files. Call it before the work that a run is made from."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists and is not empty: name another folder, or move it elsewhere")


def write_run(
    folder: Path,
    settings: config.Table,
    tokenizers: Tokenizers,
    model: nn.Module,
    about: Mapping[str, object],
    checkpoints: Sequence[Checkpoint] = ("best",),
) -> Run:
    """Makes the directory a run with the model's weights, as a whole or not at all. Returns it. ``about`` is the
    state.json of its ``checkpoints``. Raises UserError if the directory has files.
    """
    check_empty(folder)

    def fill(scratch: Path) -> None:
        Run.create(scratch, settings, tokenizers)
        for checkpoint in checkpoints:
            save_weights_alone(scratch / CHECKPOINTS / checkpoint, model, about, {CONFIG: config.write(settings)})

    replace_folder(folder, fill)
    return Run(folder, settings)
