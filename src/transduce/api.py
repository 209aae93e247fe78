"""Training from Python: ``transduce.train``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from transduce.answers.transducer import Transducer
from transduce.cli.progress import ProgressBar
from transduce.compute.crew import join
from transduce.compute.threads import use_threads
from transduce.core import config, recipes
from transduce.core.errors import UserError
from transduce.core.names import service
from transduce.data.settings import Units
from transduce.runs.layout import CONFIG, TENSORBOARD
from transduce.runs.loading import load
from transduce.runs.own_pairs import OwnPairs
from transduce.runs.replacement import put_back
from transduce.runs.run import Run
from transduce.training.begin import Resume
from transduce.training.begin import train as begin_training
from transduce.training.callbacks import Callback, TensorBoard
from transduce.training.interruption import raise_again
from transduce.training.sizes import Alternative

HELD_OUT = 20  # one pair in this number is kept for validation


def train(
    recipe: str | Path,
    out: str | Path | None = None,
    settings: Mapping[str, Any] | Sequence[str] = (),
    pairs: Iterable[tuple[str, str]] | None = None,
    resume: Resume = False,
    overwrite: bool = False,
    callbacks: Sequence[Callback] = (),
    device: str = "auto",
    threads: int | None = None,
    progress: bool = True,
    init: str | Path | None = None,
    teacher: str | Path | None = None,
) -> Transducer:
    """Trains ``recipe``, the name of a shipped recipe or the path of a .toml file. Returns the best model with the
    run's own search.

    ``settings`` override the recipe's: ``{"training.steps": 1000}`` or ``["training.steps=1000"]``. A budget among them
    (steps, epochs, minutes) replaces the recipe's whole budget.

    ``pairs`` of (source, target) replace the recipe's data. Give ("", text) for a language model. The source of a
    signal is a path, relative to the current directory. One pair in twenty is held out for validation, unless
    ``settings`` name a file in ``data.valid``. A resumed run keeps its own pairs.

    ``out`` is the run directory, by default ``runs/NAME``. A directory that holds a run is refused unless ``resume`` or
    ``overwrite`` is set. ``resume`` continues the run. If its data have changed since, it raises UserError; "new-data"
    continues with the new data, from the beginning of an epoch. ``overwrite`` replaces the run: it is deleted when the
    new one has its first checkpoint. Raises UserError if both are set.

    ``device`` is cpu, cuda (or cuda:1), mps, or "auto" for the first available of cuda, mps and cpu. ``threads`` is the
    number of processor threads (default: PyTorch's own number).

    ``callbacks`` receive the events of training. If TensorBoard is installed, its events are written into the run
    directory too. ``progress`` draws a bar on standard error. SIGINT, SIGTERM and SIGHUP save a checkpoint before they
    end the program. ``init`` is a run to start from, and ``teacher`` one to learn from (``[init]`` and
    ``[distillation]`` in docs/configuration.md).
    """
    run = train_run(
        recipe, out, settings, pairs, resume, overwrite, callbacks, device, threads, progress, init, teacher
    )
    return load(run, device=device)


def train_run(
    recipe: str | Path,
    out: str | Path | None = None,
    settings: Mapping[str, Any] | Sequence[str] = (),
    pairs: Iterable[tuple[str, str]] | None = None,
    resume: Resume = False,
    overwrite: bool = False,
    callbacks: Sequence[Callback] = (),
    device: str = "auto",
    threads: int | None = None,
    progress: bool = True,
    init: str | Path | None = None,
    teacher: str | Path | None = None,
) -> Path:
    """Trains as the function ``train`` does, with the same arguments. Returns the run directory, and loads no model."""
    if resume and overwrite:
        raise UserError("resume goes on with a run and overwrite deletes it: give one of them")
    use_threads(threads)
    run = run_folder(recipe, out)
    crew = join()
    try:
        goes_on = resume and (run / CONFIG).exists()
        if not goes_on and crew.first:
            put_back(run)
            goes_on = resume and (run / CONFIG).exists()
        own = None if pairs is None or goes_on else _own_pairs(recipe, pairs, settings)
        files = own.settings(run) if own else None
        if goes_on:
            made, sizes = recipes.continued(Run.read(run).settings, settings), []
        else:
            made, sizes = recipes.merged(recipe, settings, files), _alternatives(recipe, settings, files)
        table = _with_parents(made.table, init, teacher)
        _check_has_model(table, recipe)
        every = [*callbacks, *([ProgressBar()] if progress else []), *_tensorboard(run)]
        finished = begin_training(table, run, resume, every, device, overwrite, own, sizes, crew, made)
    finally:
        crew.leave()
    raise_again(finished.reason)
    return run


def dry_run(
    recipe: str | Path,
    out: str | Path | None = None,
    settings: Mapping[str, Any] | Sequence[str] = (),
    device: str = "auto",
    threads: int | None = None,
    init: str | Path | None = None,
    teacher: str | Path | None = None,
) -> list[str]:
    """Measures what a training would cost, with the arguments of ``train``. Returns lines for people: seconds and
    memory of an update, updates of the budget, and the largest token budget that fits into memory.

    Prepares the data in the cache of the run directory, and writes no run.
    """
    use_threads(threads)
    made = recipes.merged(recipe, settings)
    table = _with_parents(made.table, init, teacher)
    _check_has_model(table, recipe)
    run = run_folder(recipe, out)
    return [*made.notes, *service("dry run")(table, run, device, _alternatives(recipe, settings)).lines()]


def _alternatives(
    recipe: str | Path, settings: Mapping[str, Any] | Sequence[str], pairs: config.Table | None = None
) -> list[Alternative]:
    """The settings of a recipe for few training pairs, with the changes."""
    return [
        Alternative(size.below, size.recipe, recipes.merged(size.recipe, settings, pairs).table)
        for size in recipes.sizes(recipe)
    ]


def run_folder(recipe: str | Path, out: str | Path | None) -> Path:
    """``out``, or by default ``runs/NAME``, where NAME is the recipe's file name without its suffix.

    A link, or a path such as ".", is resolved to a path whose folder can be renamed.
    """
    folder = Path("runs") / Path(recipe).stem if out is None else Path(out)
    return folder.resolve() if folder.is_symlink() or folder.name in ("", "..") else folder


def _with_parents(table: config.Table, init: str | Path | None, teacher: str | Path | None) -> config.Table:
    """The table with the run to start from and the run to learn from, if they are given."""
    if init is not None:
        table = config.assign(table, "init.run", str(init))
    if teacher is not None:
        table = config.assign(table, "distillation.teacher", str(teacher))
    return table


def _check_has_model(table: config.Table, recipe: str | Path) -> None:
    """Raises ConfigError for a recipe that is only a base, and names the recipes that add a model to it."""
    if "model" not in table and (based := recipes.based_on(str(recipe))):
        raise config.ConfigError(
            "model", f"missing; {recipe} is the base of {', '.join(based)}: train one of these, or set a model"
        )


def _own_pairs(
    recipe: str | Path, pairs: Iterable[tuple[str, str]], settings: Mapping[str, Any] | Sequence[str]
) -> OwnPairs:
    """A user's pairs, divided into splits. None is held out if ``settings`` name a validation set. Raises ConfigError
    if they set a key of the data that the pairs replace.
    """
    table, given = recipes.merged(recipe, settings).table, recipes.change({}, settings).get("data", {})
    if replaced := given.keys() & {"origin", "columns", "train"}:
        raise config.ConfigError(
            f"data.{min(replaced)}", "pairs are given, which are what is trained on: leave one of the two out"
        )
    if config.build(table.get("data", {}).get("units", {}), Units, path="data.units").signal is not None:
        pairs = ((os.path.abspath(path), target) for path, target in pairs)  # the file that names them is elsewhere
    return OwnPairs.split(pairs, None if "valid" in given else HELD_OUT)


def _tensorboard(run: Path) -> list[Callback]:
    """A callback that writes TensorBoard events, in a list; an empty list if TensorBoard is not installed."""
    try:
        import tensorboard  # type: ignore[import-untyped]  # noqa: F401
    except ImportError:
        return []
    return [TensorBoard(run / TENSORBOARD)]
