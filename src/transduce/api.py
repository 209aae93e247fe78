"""What people call from Python to train: ``transduce.train``."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from transduce import config, loading, recipes
from transduce.data.settings import Units
from transduce.directory import CONFIG, DATA, TENSORBOARD, replace_file
from transduce.errors import UserError
from transduce.progress import ProgressBar
from transduce.training.callbacks import Callback, TensorBoard
from transduce.training.data import at_home
from transduce.training.replacing import put_back, replacing
from transduce.training.run import RunExistsError, check
from transduce.training.run import train as run_training
from transduce.transducer import Transducer

HELD_OUT = 20  # one in so many of ``pairs`` is kept for validation


def train(
    recipe: str | Path,
    out: str | Path | None = None,
    settings: Mapping[str, Any] | Sequence[str] = (),
    pairs: Iterable[tuple[str, str]] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    callbacks: Sequence[Callback] = (),
    device: str = "auto",
    threads: int | None = None,
    progress: bool = True,
    init: str | Path | None = None,
    teacher: str | Path | None = None,
) -> Transducer:
    """Train a recipe (or a .toml file) and return the best model.

    ``settings`` override the recipe's: ``{"training.steps": 1000}`` or ``["training.steps=1000"]``; a budget among them
    (steps, epochs, minutes) replaces all of the recipe's. ``pairs`` of (source, target), or of ("", text) for a
    language model, replace its data (the source of a signal is a path, as it is seen from here), but for what
    ``settings`` say of ``data.valid`` and ``data.test``; where the first is not set, one pair in twenty is held out for
    validation. A run that is resumed keeps those it has. ``out`` is the run directory, by default ``runs/NAME``; one
    that holds a run is refused unless ``resume`` goes on with it or ``overwrite`` deletes it, which it does when the
    new one has begun, so that a slip in the settings costs nothing. ``progress`` draws a bar on standard error. SIGINT
    and SIGTERM save a checkpoint before they do what they always do. ``init`` is a run to start from, ``teacher`` one
    to learn from (``[init]`` and ``[distillation]`` in docs/configuration.md).
    """
    if resume and overwrite:
        raise UserError("resume goes on with a run and overwrite deletes it: give one of them")
    if threads is not None:
        torch.set_num_threads(threads)
    run = run_folder(recipe, out)
    run = run.resolve() if run.is_symlink() else run  # to a larger disk, where it can be renamed
    put_back(run)
    there = (run / CONFIG).exists()
    table = change(at_home(config.read(run / CONFIG), run) if there and resume else recipes.read(recipe), settings)
    if init is not None:
        table = config.assign(table, "init.run", str(init))
    if teacher is not None:
        table = config.assign(table, "distillation.teacher", str(teacher))
    _check(table, recipe)
    if there and not (resume or overwrite):
        raise RunExistsError(run)
    kept = _splits(settings) if pairs is not None else set()
    every = [*callbacks, *([ProgressBar()] if progress else []), *_tensorboard(run)]
    with replacing(run, table) if there and overwrite else nullcontext(()) as replaced:
        if pairs is not None and not (there and resume):
            if config.build(table["data"]["units"], Units, path="data.units").signal is not None:
                pairs = ((os.path.abspath(path), target) for path, target in pairs)  # they are named from elsewhere
            written = _write_pairs(pairs, run / DATA, HELD_OUT if "valid" not in kept else None)
            table = {**table, "data": _without_files(table["data"], kept) | written}
        finished = run_training(table, run, resume, [*replaced, *every], device)
    if finished.reason == "SIGINT":
        raise KeyboardInterrupt
    if finished.reason == "SIGTERM":
        raise SystemExit(128 + signal.SIGTERM)
    return loading.load(run, device=device)


def run_folder(recipe: str | Path, out: str | Path | None) -> Path:
    """``out``, or runs/ and the recipe's name."""
    return Path(out) if out is not None else Path("runs") / Path(recipe).stem


def change(table: config.Table, settings: Mapping[str, Any] | Sequence[str]) -> config.Table:
    """The table with ``settings``, as ``train`` takes them."""
    if isinstance(settings, str):
        settings = [settings]
    keys = settings if isinstance(settings, Mapping) else [setting.partition("=")[0].strip() for setting in settings]
    if not {f"training.{limit}" for limit in recipes.BUDGET}.isdisjoint(keys):
        table = recipes.without_budget(table)
    return config.change(table, settings)


def _check(table: config.Table, recipe: str | Path) -> None:
    """Raise ConfigError unless the table is a run's; of a recipe without a model, name those that add one."""
    if "model" not in table and (based := recipes.based_on(str(recipe))):
        raise config.ConfigError(
            "model", f"missing; {recipe} is the base of {', '.join(based)}: train one of these, or set a model"
        )
    check(table)


def _splits(settings: Mapping[str, Any] | Sequence[str]) -> set[str]:
    """Which of valid and test are set. ConfigError where what is set is what pairs stand for."""
    named = {
        key.split(".")[1]
        for key in config.flatten(config.change({}, [settings] if isinstance(settings, str) else settings))
        if key.startswith("data.")
    }
    if replaced := named & {"origin", "columns", "train"}:
        raise config.ConfigError(
            f"data.{min(replaced)}", "pairs are given, which are what is trained on: leave one of the two out"
        )
    return named & {"valid", "test"}


def _without_files(data: config.Table, kept: set[str]) -> config.Table:
    """How a recipe reads its data, without what it reads, but for the splits that are ``kept``."""
    read = {"origin", "columns", "train", "valid", "test"} - kept
    return {name: value for name, value in data.items() if name not in read}


def _write_pairs(pairs: Iterable[tuple[str, str]], folder: Path, held_out: int | None) -> config.Table:
    """The pairs as JSON lines, one in ``held_out`` for validation; what to put in ``data``."""
    given = list(pairs)
    if not given:
        raise UserError("pairs is empty: training needs at least one (source, target)")
    sides = ("source", "target") if any(source for source, _ in given) else ("target",)
    rows = [json.dumps(dict(zip(sides, pair[-len(sides) :], strict=True)), ensure_ascii=False) for pair in given]
    folder.mkdir(parents=True, exist_ok=True)
    split = {"valid": rows[held_out - 1 :: held_out] if held_out else [], "train": rows}
    if held_out and split["valid"]:
        split["train"] = [row for number, row in enumerate(rows, 1) if number % held_out]
    data: config.Table = {"columns": {"target": "target"}} if len(sides) == 1 else {}
    for name, lines in split.items():
        if lines:
            path = folder.resolve() / f"{name}.jsonl"
            replace_file(path, "\n".join(lines) + "\n")
            data[name] = {"path": str(path)}
    return data


def _tensorboard(run: Path) -> list[Callback]:
    """TensorBoard's events, where it is installed."""
    try:
        import tensorboard  # type: ignore[import-untyped]  # noqa: F401
    except ImportError:
        return []
    return [TensorBoard(run / TENSORBOARD)]
