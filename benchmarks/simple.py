"""Compares transduce with the method that a user writes first, on the same examples.

    pip install -e '.[dev]'
    python benchmarks simple TASK
    python benchmarks simple TASK --run RUN [RUN ...]

The first form measures the sets of benchmarks/simple_sets.toml for a TASK. ``--data`` has their files. RUNS/TASK-SET is
the run of a set, and with ``--seeds`` RUNS/TASK-SET-SEED. ``--train`` trains the runs that are not there, by the recipe
of the set and ``--set``. A set without a run takes the score of the newest record of its recipe on the same examples;
such a difference is not paired, and its interval is too wide. The second form compares runs of your own.

Both systems learn from the same training examples, choose on the same validation examples, and answer the same test
examples. Parentheses have 95 % intervals by paired bootstrap. "better" names a system if the interval of the difference
excludes 0. Seconds are processor time: of the simple method with its answers, and of training ours.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from report import Report, columns, row, titled
from simple_methods import TASKS
from simple_methods.base import Splits, Task
from simple_methods.made import make
from simple_methods.measuring import (
    Row,
    alone,
    beside_record,
    compared,
    metric_of,
    our_statistics,
    recorded,
    simple_statistics,
)

import transduce
from transduce.core import config, recipes
from transduce.core.errors import UserError
from transduce.data.base import SPLITS
from transduce.data.preparation import examples
from transduce.data.settings import Data
from transduce.runs.run import Run
from transduce.wings.records.making import effort_of
from transduce.wings.records.record import Figure

HERE = Path(__file__).resolve().parent
SETS, RECORDS = HERE / "simple_sets.toml", HERE / "results" / "records"
COLUMNS = ("set", "tuned on", "metric", "simple", "ours", "difference", "better", "seconds, simple", "seconds, ours")


@dataclass(frozen=True)
class Set:
    """A set of data for a ``task``. ``tuned`` says that settings of transduce were chosen on its validation part.

    ``files`` is a path below the data with "{split}", or ``made`` the name of a set in simple_methods/made.py.
    ``settings`` are further settings of the recipe, with "{data}". ``trained`` are settings of the training alone.
    ``metric`` overrides the task's, ``also`` names other recipes whose records count.
    """

    task: str
    name: str
    recipe: str
    tuned: bool = False
    files: str = ""
    made: str = ""
    test: str = ""
    settings: tuple[str, ...] = ()
    trained: tuple[str, ...] = ()
    metric: str = ""
    also: tuple[str, ...] = ()

    def all_settings(self, data: Path, work: Path) -> list[str]:
        """The settings that name the files. The files of a made set are written below ``work``."""
        found = make(self.made, data, work / ".made" / self.made) if self.made else []
        if self.files:
            paths = {split: data / self.files.format(split=split) for split in SPLITS}
            if self.test:
                paths["test"] = data / self.test
            found = [f"data.{split}.path={path}" for split, path in paths.items()]
        return [*found, *(each.replace("{data}", str(data)) for each in self.settings)]


@dataclass(frozen=True)
class Sets:
    set: tuple[Set, ...]


def of_settings(recipe: str, settings: Sequence[str], cache: Path) -> Splits:
    table = recipes.read(recipe)
    for each in settings:
        table = config.override(table, each)
    data = config.build(table["data"], Data, path="data")
    signal = data.units.signal
    train, valid, test = (examples(data, split, cache) for split in SPLITS)
    return Splits(train, valid, test, None if signal is None else signal.read)


def of_run(path: Path) -> Splits:
    run = Run.open(path)
    signal = run.data.units.signal
    train, valid, test = (run.examples(split) for split in SPLITS)
    return Splits(train, valid, test, None if signal is None else signal.read)


def measured(task: Task, name: str, data: Splits, runs: Sequence[Path], own: Sequence[str]) -> Row:
    """The row of a set. ``runs`` are ours, one a seed; if there is none, a record of the recipes ``own`` is looked
    for.
    """
    simple, seconds = simple_statistics(task, name, data)
    if runs:
        ours = our_statistics(name, [transduce.load(run, device="cpu") for run in runs], data.test)
        efforts = [effort.minutes * 60 for run in runs if (effort := effort_of(Run.open(run).path))]
        return compared(simple, seconds, ours, sum(efforts) / len(runs), task.block)
    found = alone(simple, seconds, task.block)
    known = recorded(RECORDS, own, name, data.test)
    return found if known is None else beside_record(found, *known)


def line(task: str, name: str, tuned: str, metric: str, found: Row) -> str:
    better = found.better(metric_of(metric).higher_is_better)
    seconds = "–" if found.seconds is None else f"{found.seconds:.0f}"
    source = f", record {found.source}" if found.source else ""
    cells = [
        f"{task}: {name}",
        tuned,
        metric,
        cell(found.simple),
        cell(found.ours) + source,
        cell(found.difference, "+"),
    ]
    return row([*cells, better, f"{found.simple_seconds:.1f}", seconds])


def cell(figure: Figure | None, sign: str = "") -> str:
    if figure is None:
        return "–"
    form = f"{sign}.{1 if abs(figure.value) >= 10 else 2}f"
    return f"{figure.value:{form}} ({figure.low:{form}} to {figure.high:{form}})"


def row_of(
    found: Set, data: Path, work: Path, runs: Callable[[Set, Sequence[str]], list[Path]], settings: Sequence[str]
) -> tuple[str, list[Path]]:
    """The line of a set, and its runs."""
    made = found.all_settings(data, work)
    splits = of_settings(found.recipe, made, work / ".cache")
    own = runs(found, [*made, *found.trained, *settings])
    name = found.metric or TASKS[found.task].metric
    compared = measured(TASKS[found.task], name, splits, own, [found.recipe, *found.also])
    return line(found.task, found.name, "yes" if found.tuned else "no", name, compared), own


def run_folders(
    found: Set, settings: Sequence[str], runs: Path | None, seeds: Sequence[int], threads: int
) -> list[Path]:
    """The runs of a set that exist. With ``threads``, missing runs are trained first."""
    if runs is None:
        return []
    name = f"{found.task}-{found.name}"
    paths: dict[Path, list[str]] = {runs / name: []}
    if seeds:
        paths = {runs / f"{name}-{seed}": [f"training.seed={seed}"] for seed in seeds}
    for path, seed in paths.items():
        if threads:
            every = [f"data.cache={runs / '.cache'}", "training.clock=processor", *settings, *seed]
            train = partial(transduce.train, device="cpu", threads=threads, progress=False)
            train(found.recipe, path, every, resume=True)
    return [path for path in paths if (path / "config.toml").exists()]


def main(
    report: Report,
    task: Annotated[str, sorted(TASKS)],
    *,
    data: Annotated[Path | None, "with the sets (default: $TRANSDUCE_DATA)"] = None,
    runs: Path | None = None,
    train: Annotated[bool, "the runs that are not there"] = False,
    seeds: Sequence[int] = (),
    only: Annotated[Sequence[str], "these sets"] = (),
    settings: Sequence[str] = (),
    run: Annotated[Sequence[Path], "compare this run of your own"] = (),
) -> None:
    data = data or (Path(os.environ["TRANSDUCE_DATA"]) if "TRANSDUCE_DATA" in os.environ else None)
    if train and runs is None:
        raise UserError("--train needs --runs FOLDER, where runs are written")
    if not sys.warnoptions:
        warnings.filterwarnings("ignore", module="sklearn")  # a fit that did not converge is still a model
    report.tell(*titled(f"{task}: {TASKS[task].words}, and transduce"), *columns(row(COLUMNS)))
    for path in run:
        name = TASKS[task].metric
        report.tell(line(task, path.name, "", name, measured(TASKS[task], name, of_run(path), [path], [])), runs=[path])
    if run:
        return
    if data is None:
        raise UserError("--data FOLDER: where are the sets? (or set TRANSDUCE_DATA)")
    own = partial(run_folders, runs=runs, seeds=seeds, threads=report.threads if train else 0)
    with tempfile.TemporaryDirectory() as folder:
        for found in config.build(config.read(SETS), Sets).set:
            if found.task == task and (not only or found.name in only):
                made, measured_runs = row_of(found, data, runs or Path(folder), own, settings)
                report.tell(made, runs=measured_runs)
