"""Compares transduce with the method that a user writes first, on the same examples.

    pip install -e '.[dev]'
    python benchmarks/simple.py TASK [--data FOLDER] [--runs FOLDER] [--train] [--seeds 1 2 3] [--only SET ...]
                                [--set KEY=VALUE ...] [--threads 1] [--out FILE.md] [--record FILE.json]
    python benchmarks/simple.py TASK --run RUN [RUN ...]

The first form measures the sets of benchmarks/simple_sets.toml for a TASK. ``--data`` has their files. RUNS/TASK-SET is
the run of a set, and with ``--seeds`` RUNS/TASK-SET-SEED. ``--train`` trains the runs that are not there, by the recipe
of the set and ``--set``. A set without a run takes the score of the newest record of its recipe on the same examples;
such a difference is not paired, and its interval is too wide. The second form compares runs of your own.

Both systems learn from the same training examples, choose on the same validation examples, and answer the same test
examples. Parentheses have 95 % intervals by paired bootstrap. "better" names a system if the interval of the difference
excludes 0. Seconds are processor time: of the simple method with its answers, and of training ours.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from report import Report, parse, parser_of, titled
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
        efforts = [found.minutes * 60 for run in runs if (found := effort_of(Run.open(run).path))]
        return compared(simple, seconds, ours, sum(efforts) / len(runs), task.block)
    row = alone(simple, seconds, task.block)
    known = recorded(RECORDS, own, name, data.test)
    return row if known is None else beside_record(row, *known)


def line(task: str, name: str, tuned: str, metric: str, row: Row) -> str:
    better = row.better(metric_of(metric).higher_is_better)
    seconds = "–" if row.seconds is None else f"{row.seconds:.0f}"
    source = f", record {row.source}" if row.source else ""
    cells = [f"{task}: {name}", tuned, metric, cell(row.simple), cell(row.ours) + source, cell(row.difference, "+")]
    return f"| {' | '.join([*cells, better, f'{row.simple_seconds:.1f}', seconds])} |"


def cell(figure: Figure | None, sign: str = "") -> str:
    if figure is None:
        return "–"
    form = f"{sign}.{1 if abs(figure.value) >= 10 else 2}f"
    return f"{figure.value:{form}} ({figure.low:{form}} to {figure.high:{form}})"


def listed(given: argparse.Namespace, work: Path) -> Iterator[tuple[str, list[Path]]]:
    """Yields the line of each set, and its runs."""
    if given.run:
        task = TASKS[given.task]
        for path in given.run:
            row = measured(task, task.metric, of_run(path), [path], [])
            yield line(given.task, path.name, "", task.metric, row), [path]
        return
    for found in config.build(config.read(SETS), Sets).set:
        if found.task != given.task or (given.only and found.name not in given.only):
            continue
        task, name = TASKS[found.task], found.metric or TASKS[found.task].metric
        settings = found.all_settings(given.data, work)
        data = of_settings(found.recipe, settings, work / ".cache")
        runs = run_folders(given, found, [*settings, *found.trained, *given.settings])
        row = measured(task, name, data, runs, [found.recipe, *found.also])
        yield line(found.task, found.name, "yes" if found.tuned else "no", name, row), runs


def run_folders(given: argparse.Namespace, found: Set, settings: Sequence[str]) -> list[Path]:
    """The runs of a set that exist. With --train, missing runs are trained first."""
    if given.runs is None:
        return []
    name = f"{found.task}-{found.name}"
    paths: dict[Path, list[str]] = {given.runs / name: []}
    if given.seeds:
        paths = {given.runs / f"{name}-{seed}": [f"training.seed={seed}"] for seed in given.seeds}
    for path, seed in paths.items():
        if given.train:
            every = [f"data.cache={given.runs / '.cache'}", "training.clock=processor", *settings, *seed]
            train = partial(transduce.train, device="cpu", threads=given.threads, progress=False)
            train(found.recipe, path, every, resume=True)
    return [path for path in paths if (path / "config.toml").exists()]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("task", choices=sorted(TASKS))
    parser.add_argument("--data", type=Path, default=os.environ.get("TRANSDUCE_DATA"))
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--seeds", type=int, nargs="*", default=[])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--set", dest="settings", action="append", default=[])
    parser.add_argument("--run", type=Path, nargs="*", default=[])
    given = parse(parser, threads=1)
    if not given.run and given.data is None:
        parser.error("--data FOLDER: where are the sets? (or set TRANSDUCE_DATA)")
    if given.train and given.runs is None:
        parser.error("--train needs --runs FOLDER, where runs are written")
    if not sys.warnoptions:
        warnings.filterwarnings("ignore", module="sklearn")  # a fit that did not converge is still a model
    given.data = None if given.data is None else Path(given.data)
    table = titled(f"{given.task}: {TASKS[given.task].words}, and transduce")
    table += [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    print("\n".join(table), flush=True)
    report, measured_runs = Report.asked(given), list[Path]()
    with tempfile.TemporaryDirectory() as folder:
        for row, runs in listed(given, given.runs or Path(folder)):
            print(row, flush=True)
            table.append(row)
            measured_runs += runs
            report.write(table, measured_runs)


if __name__ == "__main__":
    main()
