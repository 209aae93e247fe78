"""``transduce.sweep``: train a grid of models, each in a process of its own, and set them side by side."""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from transduce import config
from transduce.compute.device import choose_device
from transduce.data.preparation import Tokenizers, prepare
from transduce.data.settings import Data
from transduce.directory import ASKED, CONFIG, LOG, TOKENIZERS
from transduce.errors import UserError
from transduce.plugins import load_plugins
from transduce.records.changes import differing_settings
from transduce.sweeps import processes
from transduce.sweeps.grid import SweepCell, Vary, shared
from transduce.sweeps.measurement import Conditions, Measurement, command, measured_split
from transduce.sweeps.picture import draw
from transduce.sweeps.question import OtherQuestionError, Question, ask
from transduce.sweeps.results import SweepResults, collect
from transduce.sweeps.table import write
from transduce.training.data import cache_folder
from transduce.training.lock import alone
from transduce.training.run import check
from transduce.training.settings import check_ancestors

log = logging.getLogger("transduce.sweep")


def sweep(
    recipe: str | Path | None = None,
    vary: Vary | None = None,
    seeds: int | Sequence[int] | None = None,
    settings: Mapping[str, Any] | Sequence[str] = (),
    out: str | Path | None = None,
    jobs: int = 1,
    threads: int | None = None,
    device: str = "auto",
    overwrite: bool = False,
    plugins: Sequence[str] = (),
    split: str | None = None,
) -> SweepResults:
    """Train every combination of the values in ``vary`` with every seed, and set the results side by side.

    ``vary={"model.encoder.width": [64, 128]}`` changes a recipe; ``{"recipe": ["g2p", "g2p-large"]}`` takes several.
    ``seeds`` are 1 to so many (3 where it is not said), or those listed; ``settings`` are as ``train`` takes them, for
    all. ``jobs`` are trained at a time, on ``threads`` each (by default the machine's cores are shared out).

    ``out``, by default ``sweeps/NAME``, has a run directory for each in ``cells/``, and ``results.md``, ``.csv`` and
    ``.png``. What is finished there is not trained again and what was interrupted goes on, so that a second call adds
    to a sweep; without ``recipe`` and ``vary`` it goes on with all that was asked of ``out``. Cells that are there
    with other settings are refused (OtherQuestionError), or deleted with ``overwrite``, once the data of the new ones
    are prepared, so that a slip in the settings costs nothing. A cell that fails is told on the logger
    ``transduce.sweep``, as is each that ends, and does not stop the others.

    ``split`` is what all are measured on: "valid", to choose by, or "test" (valid, where there is none), which is so at
    first and otherwise as before. Where it is another than before, all are measured again, and none trained.
    """
    if jobs < 1:
        raise UserError(f"jobs = {jobs}: at least one cell is trained at a time")
    load_plugins(plugins)
    choose_device(device)  # says what is wrong with it
    asked = ask(recipe, vary or {}, seeds, settings)
    folder = Path(out) if out is not None else _folder(asked)
    asked = _settled(asked, folder, split)
    tables = {cell.name: _table(cell, asked.settings) for cell in asked.cells()}
    conditions = Conditions.here(threads or max(1, (os.cpu_count() or 1) // jobs), jobs, device)
    with alone(folder, "sweep"):
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
    """sweeps/ and the recipe's name, or what several have in common."""
    if asked is None:
        raise UserError("a sweep is of a recipe, or of --vary recipe=a,b; or --out has one to go on with")
    stems = [Path(cell.variant.recipe).stem for cell in asked.cells()]
    return Path("sweeps") / (shared(stems) or "recipes")


def _settled(asked: Question | None, folder: Path, split: str | None) -> Question:
    """What is asked of the folder now: a split stays as it was unless another is given, on which all are measured."""
    there = Question.read(folder)
    asked = asked or there
    if asked is None:
        raise UserError(f"{folder} holds no sweep to go on with: give a recipe, or --vary recipe=a,b")
    asked = replace(asked, split=split or (there or asked).split)
    if there is not None and there.split != asked.split and not there.differences(asked):
        return there.joined(asked)  # one table is of one split
    return asked


# ---------------------------------------------------------------------- cells


def _table(cell: SweepCell, settings: Mapping[str, Any]) -> config.Table:
    """The cell's configuration, found in order as far as can be told without its data."""
    try:
        asked = cell.table(settings)
        check(asked)
    except config.ConfigError as error:
        raise config.ConfigError("", f"{cell.name}: {error}") from error
    return asked


def _stale(
    before: Question | None, asked: Question, folder: Path, tables: Mapping[str, config.Table]
) -> dict[str, list[str]]:
    """The cells that cannot stand beside those asked now, and what differs: all, where the question is another, else
    those whose recipe has changed since, whether they are asked again or not: one table has them all."""
    cells = [] if before is None else before.cells()
    if before is not None and (others := before.differences(asked)):
        return {cell.name: others for cell in cells}
    found = {name: _differences(folder / "cells" / name, table) for name, table in tables.items()}
    kept = (cell for cell in cells if cell.name not in tables)
    found |= {cell.name: _changes(folder / "cells" / cell.name, cell, asked.settings) for cell in kept}
    return {name: differences for name, differences in found.items() if differences}


def _changes(run: Path, cell: SweepCell, settings: Mapping[str, Any]) -> list[str]:
    """``_differences`` of a cell that is not asked now, so that its recipe may be gone or wrong."""
    if not (run / CONFIG).exists():
        return []
    try:
        return _differences(run, cell.table(settings))
    except (config.ConfigError, FileNotFoundError) as error:
        return [f"its settings do not read any more: {error}"]


def _differences(run: Path, table: config.Table) -> list[str]:
    """What the run that is there was trained with and would not be now, and the reverse, a line each."""
    if not (run / CONFIG).exists():
        return []
    facts = Tokenizers.load(run / TOKENIZERS).facts
    found = differing_settings(table, config.read(run / CONFIG), facts)
    return [f"{key} = {_value(change.recipe)} (was {_value(change.run)})" for key, change in found.items()]


def _value(setting: Any) -> str:
    return repr("nothing" if setting is None else setting)


def _waiting(tables: Mapping[str, config.Table], folder: Path, stale: Collection[str], split: str) -> dict[str, Path]:
    """The folders of the cells that are still to be done, by name; what is ``stale`` is so anew."""
    runs = {name: folder / "cells" / name for name in tables}
    waiting = {name: run for name, run in runs.items() if name in stale or Measurement.read(run, split) is None}
    log.info("%s: %d cells, %d of them finished", folder, len(runs), len(runs) - len(waiting))
    return waiting


def _prepare(cells: Sequence[tuple[config.Table, Path]], stale: Collection[Path], split: str) -> None:
    """The data of all, once each, before any is trained: cells side by side would each prepare them, and a split that
    is missing or does not read must not be found out hours later, or when what is ``stale`` has been deleted."""
    done: list[config.Table] = []
    for table, run in cells:
        if run in stale or not (run / CONFIG).exists():
            check_ancestors(table, stale)
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
    """What is still to be done: settings written."""
    for name, run in waiting.items():
        run.mkdir(parents=True, exist_ok=True)
        (run / ASKED).write_text(config.write(tables[name]), encoding="utf-8")
    return [processes.Task(name, command(run, conditions, split, plugins), run / LOG) for name, run in waiting.items()]


def _run(tasks: Sequence[processes.Task], jobs: int, conditions: Conditions, question: Question, folder: Path) -> None:
    """Train and measure; a line and a new table for each that ends."""
    began = time.monotonic()
    environment = {"OMP_NUM_THREADS": str(conditions.threads)}
    for number, ended in enumerate(processes.run(tasks, jobs, environment), 1):
        found = Measurement.read(ended.task.log.parent) if ended.status == 0 else None
        told = f"failed: {ended.reason} (see {ended.task.log})"
        if found is not None:
            told = "  ".join(f"{name} {value:.2f}" for name, value in found.metrics.items())
        minutes = (time.monotonic() - began) / 60
        log.info("[%d/%d] %.1f min  %s  %s", number, len(tasks), minutes, ended.task.name, told)
        write(collect(question, folder))


def _draw(results: SweepResults) -> None:
    try:
        draw(results)
    except ImportError as error:
        log.warning("no picture: %s", error)
