"""``transduce.sweep``: trains a grid of models, each in its own process, and compares them."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from transduce.compute.device import choose_device
from transduce.compute.precision import choose_precision
from transduce.compute.threads import check_number
from transduce.core import config
from transduce.core.config.user_data import Merged
from transduce.core.errors import UserError
from transduce.core.files import write_text
from transduce.core.plugins import load_plugins
from transduce.core.stages import counted
from transduce.data.preparation import prepare
from transduce.data.settings import Data
from transduce.runs.ancestry import check_parents, parents_of
from transduce.runs.layout import ASKED, CONFIG, LOG
from transduce.runs.lock import locked
from transduce.runs.run import Run, cache_folder
from transduce.training.settings import read_settings
from transduce.wings.lab.sweeps import processes
from transduce.wings.lab.sweeps.grid import SweepCell, Vary, shared
from transduce.wings.lab.sweeps.measurement import Conditions, Measurement, command, measured_split
from transduce.wings.lab.sweeps.picture import draw
from transduce.wings.lab.sweeps.question import OtherQuestionError, Question, ask
from transduce.wings.lab.sweeps.results import SweepResults, collect
from transduce.wings.lab.sweeps.results_page import write
from transduce.wings.records.changes import differing_settings

log = logging.getLogger("transduce.sweep")

PRECISION = "training.precision"


def sweep(
    recipe: str | Path | None = None,
    vary: Vary | None = None,
    seeds: int | Sequence[int] | None = None,
    settings: Mapping[str, object] | Sequence[str] = (),
    out: str | Path | None = None,
    jobs: int = 1,
    threads: int | None = None,
    device: str = "auto",
    overwrite: bool = False,
    plugins: Sequence[str] = (),
    split: str | None = None,
) -> SweepResults:
    """Trains every combination of the values in ``vary`` with every seed, and returns the results of all finished
    cells.

    ``vary={"model.encoder.width": [64, 128]}`` changes a recipe. ``{"recipe": ["g2p", "g2p-ctc"]}`` takes several
    recipes. ``seeds`` is a number n for the seeds 1 to n (default 3), or a list of seeds. ``settings`` apply to all
    cells, as in ``train``. ``jobs`` cells train at a time, with ``threads`` each (by default the cores are divided
    evenly).

    ``out``, by default ``sweeps/NAME``, gets a run directory per cell in ``cells/``, and ``results.md``, ``.csv`` and
    ``.png``. Finished cells are not trained again, and interrupted cells are resumed, so a second call adds to a sweep.
    A call without ``recipe`` and ``vary`` continues everything in ``out``. The logger ``transduce.sweep`` reports each
    cell that ends or fails; a failure does not stop the others.

    Old cells with other settings raise OtherQuestionError, or are deleted if ``overwrite`` is true. They are deleted
    only after the data of the new cells are prepared, so a mistake in the settings loses nothing.

    ``split`` is the split to measure on: "valid" to choose by, or "test" (valid if there is no test). The default is
    "test" for a new sweep and the old split otherwise. If the split changes, all cells are measured again without
    training. Raises UserError for arguments that do not describe a sweep, for settings that are invalid, and while
    another process sweeps in ``out``.
    """
    if jobs < 1:
        raise UserError(f"jobs = {jobs}: at least one cell is trained at a time")
    load_plugins(plugins)
    choose_device(device)  # raises an error if there is no such device
    asked = ask(recipe, vary or {}, seeds, settings)
    folder = Path(out) if out is not None else _folder(asked)
    asked = _settled(asked, folder, split)
    made = {cell.name: _merged(cell, asked.settings) for cell in asked.cells()}
    tables = {name: merged.table for name, merged in made.items()}
    for note in dict.fromkeys(note for merged in made.values() for note in merged.notes):
        log.warning("%s", note)
    each = threads or max(1, (os.cpu_count() or 1) // check_number("jobs", jobs))
    conditions = Conditions.here(check_number("threads", each), jobs, device)
    with locked(folder, "sweep"):
        before = Question.read(folder)
        stale = _stale(before, asked, folder, tables)
        if stale and not overwrite:
            name, differences = next(iter(stale.items()))
            raise OtherQuestionError(folder / "cells" / name, differences, len(stale))
        waiting = _waiting(tables, folder, stale, asked.split)
        cells = [(tables[name], run) for name, run in waiting.items()]
        _prepare(cells, [folder / "cells" / name for name in stale], asked.split)
        for name in stale:
            shutil.rmtree(folder / "cells" / name, ignore_errors=True)
        question = asked if before is None or before.differences(asked) else before.joined(asked)
        question.write(folder)
        tables = _with_one_precision(tables, folder, device)
        tasks = _begin(tables, waiting, conditions, asked.split, plugins)
        try:
            _run(tasks, jobs, conditions, question, folder)
        finally:
            results = collect(question, folder)
            _draw(results)
            write(results)
    return results


# ------------------------------------------------------------------- question


def _folder(asked: Question | None) -> Path:
    """The default folder, relative to the current directory: ``sweeps/`` and the recipe's name, or the common prefix of
    several names, or "recipes".

    Raises UserError if there is no question.
    """
    if asked is None:
        raise UserError("a sweep is of a recipe, or of --vary recipe=a,b; or --out has one to go on with")
    stems = [Path(cell.variant.recipe).stem for cell in asked.cells()]
    return Path("sweeps") / (shared(stems) or "recipes")


def _settled(asked: Question | None, folder: Path, split: str | None) -> Question:
    """The question that the sweep answers now: ``asked`` or, if that is None, the one in the folder.

    Its split is ``split`` or, if that is None, the split of the folder's question. If the split changes and recipe and
    settings do not, the question also gets the folder's grids, so that all cells are measured again. Raises UserError
    if there is no question at all.
    """
    there = Question.read(folder)
    asked = asked or there
    if asked is None:
        raise UserError(f"{folder} holds no sweep to go on with: give a recipe, or --vary recipe=a,b")
    asked = replace(asked, split=split or (there or asked).split)
    if there is not None and there.split != asked.split and not there.differences(asked):
        return there.joined(asked)  # all cells of a table share a split
    return asked


# ---------------------------------------------------------------------- cells


def _merged(cell: SweepCell, settings: Mapping[str, object]) -> Merged:
    """The cell's configuration, checked as far as possible without data. Raises ConfigError, which names the cell."""
    try:
        asked = cell.merged(settings)
        read_settings(asked.table)
    except config.ConfigError as error:
        raise config.ConfigError("", f"{cell.name}: {error}") from error
    return asked


def _stale(
    before: Question | None, asked: Question, folder: Path, tables: Mapping[str, config.Table]
) -> dict[str, list[str]]:
    """The old cells that cannot be compared with the requested ones, by name, and their differences.

    If recipe or settings of the sweep differ, these are all old cells. Otherwise they are the cells whose recipe has
    changed since they were trained. This includes cells that are not requested now, because all cells share one table.
    """
    cells = [] if before is None else before.cells()
    if before is not None and (others := before.differences(asked)):
        return {cell.name: others for cell in cells}
    found = {name: _differences(folder / "cells" / name, table) for name, table in tables.items()}
    kept = (cell for cell in cells if cell.name not in tables)
    found |= {cell.name: _changes(folder / "cells" / cell.name, cell, asked.settings) for cell in kept}
    return {name: differences for name, differences in found.items() if differences}


def _changes(run: Path, cell: SweepCell, settings: Mapping[str, object]) -> list[str]:
    """``_differences`` for a cell that is not requested now. An unreadable recipe or invalid settings are one
    difference.
    """
    if not (run / CONFIG).exists():
        return []
    try:
        return _differences(run, cell.merged(settings).table)
    except (config.ConfigError, FileNotFoundError) as error:
        return [f"its settings do not read any more: {error}"]


def _differences(run: Path, table: config.Table) -> list[str]:
    """The differences between the settings of an existing run and the new ``table``; none if there is no run.

    Each is "key = new (was old)".
    """
    if not (run / CONFIG).exists():
        return []
    there = Run.read(run)
    found = differing_settings(table, there.settings, there.tokenizers.facts)
    return [f"{key} = {_value(change.recipe)} (was {_value(change.run)})" for key, change in found.items()]


def _value(setting: object) -> str:
    return repr("nothing" if setting is None else setting)


def _waiting(tables: Mapping[str, config.Table], folder: Path, stale: Collection[str], split: str) -> dict[str, Path]:
    """The folders of the requested cells that need work, by name: the ``stale`` ones, and those without a measurement
    for ``split``.
    """
    runs = {name: folder / "cells" / name for name in tables}
    waiting = {name: run for name, run in runs.items() if name in stale or Measurement.read(run, split) is None}
    log.info("%s: %d cells, %d of them finished", folder, len(runs), len(runs) - len(waiting))
    return waiting


def _prepare(cells: Sequence[tuple[config.Table, Path]], stale: Collection[Path], split: str) -> None:
    """Prepares the data of all cells once, before any training. ``cells`` are pairs of a configuration and a run
    directory; ``stale`` are the directories that will be deleted.

    Otherwise parallel cells would each prepare the same data. This also finds a missing or unreadable split before
    hours of training, and before the runs in ``stale`` are deleted. Raises UserError for these, and for a cell that
    starts from a run in ``stale``.
    """
    done: list[config.Table] = []
    for table, run in cells:
        if run in stale or not (run / CONFIG).exists():
            check_parents(parents_of(table), stale)
        if table["data"] not in done:
            data = config.build(table["data"], Data, path="data")
            cache = cache_folder(data, run)
            measured_split(data, cache, split)
            prepare(data, cache)
            done.append(table["data"])


def _begin(
    tables: Mapping[str, config.Table],
    waiting: Mapping[str, Path],
    conditions: Conditions,
    split: str,
    plugins: Sequence[str],
) -> list[processes.Task]:
    """Writes asked.toml into the folder of each waiting cell, and returns the tasks that train them."""
    for name, run in waiting.items():
        write_text(run / ASKED, config.write(tables[name]))
    return [processes.Task(name, command(run, conditions, split, plugins), run / LOG) for name, run in waiting.items()]


def _with_one_precision(tables: Mapping[str, config.Table], folder: Path, device: str) -> dict[str, config.Table]:
    """The cells' configurations, in which one value replaces each precision "auto".

    This is the precision of a cell that is already trained or, if there is none, the best for this device. If each cell
    chose for itself, one could differ because the machine was busy.
    """
    choosing = [name for name, table in tables.items() if config.flatten(table).get(PRECISION, "auto") == "auto"]
    files = (folder / "cells" / name / CONFIG for name in choosing)
    trained = [config.flatten(config.read(path))[PRECISION] for path in files if path.exists()]
    if not choosing:
        return dict(tables)
    shared = trained[0] if trained else choose_precision("auto", choose_device(device)).precision
    return {**tables, **{name: config.assign(tables[name], PRECISION, shared) for name in choosing}}


def _run(tasks: Sequence[processes.Task], jobs: int, conditions: Conditions, question: Question, folder: Path) -> None:
    """Trains and measures the cells. Whenever one ends, logs a line and writes results.md and results.csv again."""
    began = time.monotonic()
    environment = {"OMP_NUM_THREADS": str(conditions.threads)}
    for number, ended in enumerate(counted(processes.run(tasks, jobs, environment), "runs", len(tasks)), 1):
        found = Measurement.read(ended.task.log.parent) if ended.status == 0 else None
        told = f"failed: {ended.reason} (see {ended.task.log})"
        if found is not None:
            told = "  ".join(f"{name} {value:.2f}" for name, value in found.metrics.items())
        minutes = (time.monotonic() - began) / 60
        log.info("[%d/%d] %.1f min  %s  %s", number, len(tasks), minutes, ended.task.name, told)
        write(collect(question, folder))


def _draw(results: SweepResults) -> None:
    """Draws the picture. Without matplotlib it logs a warning instead."""
    try:
        draw(results)
    except ImportError as error:
        log.warning("no picture: %s", error)
