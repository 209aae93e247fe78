"""Ten recurrent cells on three tasks, beside the table of Jozefowicz et al. 2015.

    python benchmarks/cells.py recipes arithmetic FOLDER [--set data.cache=FOLDER ...]      (and xml, ptb)
    transduce sweep --vary recipe=FOLDER/arithmetic/tanh.toml,... --seeds 2 --out SWEEPS/arithmetic
    python benchmarks/cells.py table SWEEPS [--out benchmarks/results/FILE.md] [--record FILE.json]

The first writes FOLDER/TASK/CELL.toml: the recipe cells-TASK with another cell, of the width that gives the model as
many parameters as the recipe's own LSTM has, as nearly as can be, and prints how many. The last reads each sweep's
results.csv. An order of two cells is asked about where the paper's gap is larger than our own spread over seeds.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from report import Report, add_options, machine

from transduce import api, config, recipes
from transduce.data.preparation import prepare
from transduce.data.settings import Data
from transduce.protocols import Model
from transduce.types import Facts

LSTM = {"type": "lstm", "forget_bias": 0.0}
CELLS: dict[str, config.Table | str] = {
    "tanh": "elman",
    "lstm": LSTM,
    "lstm-f": {"type": "lstm-without", "gate": "forget"},
    "lstm-i": {"type": "lstm-without", "gate": "input", "forget_bias": 0.0},
    "lstm-o": {"type": "lstm-without", "gate": "output", "forget_bias": 0.0},
    "lstm-b": LSTM | {"forget_bias": 1.0},
    "gru": "gru-reset-before",
    "mut1": "mut1",
    "mut2": "mut2",
    "mut3": "mut3",
}
PUBLISHED: dict[str, list[float]] = {
    "arithmetic": [29.493, 89.228, 29.292, 75.109, 86.747, 90.163, 89.565, 92.135, 89.735, 90.728],
    "xml": [32.050, 42.470, 23.356, 41.371, 42.117, 44.434, 45.963, 47.483, 47.324, 46.478],
    "ptb": [8.782, 8.912, 8.808, 8.662, 8.933, 8.952, 9.069, 8.968, 9.036, 9.161],
}
"""Next-step accuracy in percent, in the order of ``CELLS``: Jozefowicz, Zaremba and Sutskever, "An Empirical
Exploration of Recurrent Network Architectures", ICML 2015, table 1."""


# --------------------------------------------------------------------- recipes


def recipe(task: str, cell: config.Table | str, width: int) -> config.Table:
    """The recipe of a task with a cell in every network that it has."""
    network = {"cell": cell, "width": width}
    sides = [side for side in ("encoder", "decoder") if side in recipes.read(f"cells-{task}")["model"]]
    return {"base": f"cells-{task}", "model": dict.fromkeys(sides, network)}


def parameters(table: config.Table, facts: Facts) -> int:
    with torch.device("meta"):
        model: Any = config.build(table, Model, facts, "model")
    return sum(parameter.numel() for parameter in model.parameters())


def fitting(task: str, cell: config.Table | str, facts: Facts, wanted: int) -> tuple[int, int]:
    """The width whose model is nearest to ``wanted`` parameters, and its parameters."""
    base = recipes.read(f"cells-{task}")["model"]

    def count(width: int) -> int:
        return parameters(config.merge(base, recipe(task, cell, width)["model"]), facts)

    low, high = 1, 4096
    while low + 1 < high:  # parameters grow with the width
        middle = (low + high) // 2
        low, high = (middle, high) if count(middle) <= wanted else (low, middle)
    return min(((width, count(width)) for width in (low, high)), key=lambda each: abs(each[1] - wanted))


def write_recipes(task: str, folder: Path, settings: list[str]) -> None:
    if others := [each for each in settings if not each.startswith("data.")]:
        raise SystemExit(
            f"--set {others[0]}: what is set here is of the data (data.); set the rest where recipes are trained"
        )
    table = api.change(recipes.read(f"cells-{task}"), settings)
    data = config.build(table["data"], Data, path="data")
    facts = prepare(data, Path(data.cache or folder / ".cache")).facts
    wanted = parameters(table["model"], facts)
    (folder / task).mkdir(parents=True, exist_ok=True)
    for name, cell in CELLS.items():
        width, count = fitting(task, cell, facts, wanted)
        print(f"{task}  {name}: width {width}, {count:,} parameters")
        (folder / task / f"{name}.toml").write_text(config.write(recipe(task, cell, width)), encoding="utf-8")


# ----------------------------------------------------------------------- table


@dataclass(frozen=True)
class Measured:
    """A cell's accuracy by seed, and what it took."""

    accuracies: list[float]
    parameters: int
    updates: int
    seconds: float

    @property
    def mean(self) -> float:
        return statistics.fmean(self.accuracies)

    @property
    def spread(self) -> float:
        return max(self.accuracies) - min(self.accuracies)


def measured(results: Path) -> dict[str, Measured]:
    """By cell, those of a sweep's results.csv."""
    rows: dict[str, list[dict[str, str]]] = defaultdict(list)
    with results.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            rows[Path(row["recipe"]).stem].append(row)
    return {
        cell: Measured(
            [float(row["token_accuracy"]) for row in found],
            int(found[0]["parameters"]),
            int(found[0]["updates"]),
            statistics.fmean(float(row["training_seconds"]) for row in found),
        )
        for cell, found in rows.items()
    }


def tau(ours: Mapping[str, float], theirs: Mapping[str, float]) -> float:
    """Kendall's rank correlation, of the cells that both have."""
    signs = [
        math.copysign(1, (ours[a] - ours[b]) * (theirs[a] - theirs[b])) for a, b in itertools.combinations(ours, 2)
    ]
    return statistics.fmean(signs)


def section(task: str, found: Mapping[str, Measured]) -> list[str]:
    theirs = {cell: value for cell, value in zip(CELLS, PUBLISHED[task], strict=True) if cell in found}
    ours = {cell: found[cell].mean for cell in theirs}
    spreads = [each.spread for each in found.values() if len(each.accuracies) > 1]
    if not spreads:
        raise SystemExit(f"{task} has one seed of each cell, which tells no spread: sweep with --seeds 2")
    spread = statistics.fmean(spreads)
    asked = [(a, b) for a, b in itertools.permutations(ours, 2) if theirs[a] - theirs[b] > spread]
    contradicted = [f"{a} over {b} ({theirs[a] - theirs[b]:.1f})" for a, b in asked if ours[a] <= ours[b]]
    seeds = sorted({len(each.accuracies) for each in found.values()})
    lines = [f"## {task}", "", "| cell | theirs | ours | parameters | seconds |", "|---|---:|---:|---:|---:|"]
    for cell in theirs:
        each = found[cell]
        low, high = min(each.accuracies), max(each.accuracies)
        lines.append(
            f"| {cell} | {theirs[cell]:.1f} | {each.mean:.1f} ({low:.1f} to {high:.1f}) | {each.parameters:,} "
            f"| {each.seconds:.0f} |"
        )
    updates = sorted({each.updates for each in found.values()})
    return [
        *lines,
        "",
        f"{' or '.join(f'{count:,}' for count in updates)} updates, {' or '.join(map(str, seeds))} seeds. Over seeds a "
        f"cell's accuracy spreads by {spread:.2f} on average, {max(spreads):.2f} at most. Of "
        f"{math.comb(len(ours), 2)} pairs of cells the paper's gap is larger than the average in {len(asked)}; "
        f"{len(asked) - len(contradicted)} of these are in its order here. Kendall's tau over all pairs: "
        f"{tau(ours, theirs):.2f}.",
        *(["", f"Against the paper (its gap): {', '.join(contradicted)}."] if contradicted else []),
        "",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("recipes")
    writing.add_argument("task", choices=PUBLISHED)
    writing.add_argument("folder", type=Path)
    writing.add_argument("--set", dest="settings", action="append", default=[])
    reading = commands.add_parser("table")
    reading.add_argument("sweeps", type=Path)
    add_options(reading)
    arguments = parser.parse_args()
    if arguments.command == "recipes":
        write_recipes(arguments.task, arguments.folder, arguments.settings)
        return
    lines = ["# Ten recurrent cells beside the table of Jozefowicz et al. 2015", "", machine(), ""]
    lines += ["Next-step accuracy in percent, on test; theirs with their own sizes, data and search for settings.", ""]
    for task in PUBLISHED:
        results = next(iter(sorted(arguments.sweeps.glob(f"*{task}/results.csv"))), None)
        if results is not None:
            lines += section(task, measured(results))
    print("\n".join(lines))
    Report.asked(arguments).write(lines)


if __name__ == "__main__":
    main()
