"""Compares ten recurrent cells on three tasks with the table of Jozefowicz et al. 2015.

    python benchmarks cells FOLDER --recipes arithmetic [--set data.cache=FOLDER ...]      (and xml, ptb)
    transduce sweep --vary recipe=FOLDER/arithmetic/tanh.toml,... --seeds 2 --out SWEEPS/arithmetic
    python benchmarks cells SWEEPS

The first command writes FOLDER/TASK/CELL.toml: the recipe cells-TASK with another cell. It chooses the width whose
number of parameters is nearest to the recipe's own LSTM, and prints both. The recipes have the settings of --set.
The last command reads results.csv of each sweep. It compares the order of two cells only if their gap in the paper is
larger than our own spread over seeds.
"""

from __future__ import annotations

import csv
import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from report import Report, columns, row, titled

from transduce.core import config, recipes
from transduce.core.protocols import Model
from transduce.core.types import Facts
from transduce.data.preparation import prepare
from transduce.data.settings import Data

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

COLUMNS = (
    "task",
    "updates",
    "seeds",
    "spread over seeds",
    "pairs with a larger gap",
    "in its order here",
    "Kendall's tau",
)


# --------------------------------------------------------------------- recipes


def recipe(task: str, cell: config.Table | str, width: int) -> config.Table:
    """The recipe of a task with this cell and width in each network of its model."""
    network = {"cell": cell, "width": width}
    sides = [side for side in ("encoder", "decoder") if side in recipes.read(f"cells-{task}")["model"]]
    return {"base": f"cells-{task}", "model": dict.fromkeys(sides, network)}


def parameters(table: config.Table, facts: Facts) -> int:
    with torch.device("meta"):
        model: Any = config.build(table, Model, facts, "model")
    return sum(parameter.numel() for parameter in model.parameters())


def fitting(task: str, cell: config.Table | str, facts: Facts, wanted: int) -> tuple[int, int]:
    """The width whose number of parameters is nearest to ``wanted``, and this number."""
    base = recipes.read(f"cells-{task}")["model"]

    def count(width: int) -> int:
        return parameters(config.merge(base, recipe(task, cell, width)["model"]), facts)

    low, high = 1, 4096
    while low + 1 < high:  # parameters grow with the width
        middle = (low + high) // 2
        low, high = (middle, high) if count(middle) <= wanted else (low, middle)
    return min(((width, count(width)) for width in (low, high)), key=lambda each: abs(each[1] - wanted))


def write_recipes(task: str, folder: Path, settings: Sequence[str]) -> None:
    if others := [each for each in settings if not each.startswith("data.")]:
        raise SystemExit(
            f"--set {others[0]}: only settings of the data (data.…) go into the recipes; give the others to the sweep"
        )
    table = recipes.change(recipes.read(f"cells-{task}"), settings)
    data = config.build(table["data"], Data, path="data")
    facts = prepare(data, Path(data.cache or folder / ".cache")).facts
    wanted = parameters(table["model"], facts)
    (folder / task).mkdir(parents=True, exist_ok=True)
    for name, cell in CELLS.items():
        width, count = fitting(task, cell, facts, wanted)
        print(f"{task}  {name}: width {width}, {count:,} parameters")
        (folder / task / f"{name}.toml").write_text(
            config.write(recipes.change(recipe(task, cell, width), settings)), encoding="utf-8"
        )


# ----------------------------------------------------------------------- table


@dataclass(frozen=True)
class Measured:
    """The accuracy of a cell for each seed, its parameters and updates, and its mean seconds of training."""

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
    """Reads the results.csv of a sweep: the results by cell."""
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
    """Kendall's rank correlation of two accuracies of the same cells."""
    signs = [
        math.copysign(1, (ours[a] - ours[b]) * (theirs[a] - theirs[b])) for a, b in itertools.combinations(ours, 2)
    ]
    return statistics.fmean(signs)


@dataclass(frozen=True)
class Order:
    """The order of a task's cells, compared with the paper's. ``asked`` has the pairs of cells whose gap in the paper
    is larger than our own spread over seeds. The cell that is better in the paper is first.
    """

    task: str
    found: Mapping[str, Measured]
    theirs: Mapping[str, float]

    @classmethod
    def of(cls, task: str, found: Mapping[str, Measured]) -> Order:
        theirs = {cell: value for cell, value in zip(CELLS, PUBLISHED[task], strict=True) if cell in found}
        return cls(task, found, theirs)

    @property
    def ours(self) -> dict[str, float]:
        return {cell: self.found[cell].mean for cell in self.theirs}

    @property
    def spreads(self) -> list[float]:
        """The spread of each cell that has several seeds."""
        spreads = [each.spread for each in self.found.values() if len(each.accuracies) > 1]
        if not spreads:
            raise SystemExit(f"{self.task} has one seed of each cell, which tells no spread: sweep with --seeds 2")
        return spreads

    @property
    def asked(self) -> list[tuple[str, str]]:
        spread = statistics.fmean(self.spreads)
        return [(a, b) for a, b in itertools.permutations(self.theirs, 2) if self.theirs[a] - self.theirs[b] > spread]

    @property
    def contradicted(self) -> list[tuple[str, str]]:
        ours = self.ours
        return [(a, b) for a, b in self.asked if ours[a] <= ours[b]]

    def accuracies(self) -> list[str]:
        """The lines of a table with all cells."""
        lines = [f"## {self.task}", "", "| cell | theirs | ours | parameters | seconds |", "|---|---:|---:|---:|---:|"]
        for cell, accuracy in self.theirs.items():
            each = self.found[cell]
            low, high = min(each.accuracies), max(each.accuracies)
            of_seeds = f" ({low:.2f} to {high:.2f})" if len(each.accuracies) > 1 else ""
            lines.append(
                f"| {cell} | {accuracy:.2f} | {each.mean:.2f}{of_seeds} | {each.parameters:,} | {each.seconds:.0f} |"
            )
        gaps = [f"{a} over {b} ({self.theirs[a] - self.theirs[b]:.2f})" for a, b in self.contradicted]
        return [*lines, "", *([f"Against the paper (its gap): {', '.join(gaps)}.", ""] if gaps else [])]

    def row(self) -> str:
        """The line of this task in the table of all tasks."""
        updates = sorted({each.updates for each in self.found.values()})
        seeds = sorted({len(each.accuracies) for each in self.found.values()})
        columns = [
            self.task,
            " or ".join(f"{count:,}" for count in updates),
            " or ".join(map(str, seeds)),
            f"{statistics.fmean(self.spreads):.2f} ({max(self.spreads):.2f} at most)",
            f"{len(self.asked)} of {math.comb(len(self.theirs), 2)}",
            f"{len(self.asked) - len(self.contradicted)}",
            f"{tau(self.ours, self.theirs):.2f}",
        ]
        return f"| {' | '.join(columns)} |"


def main(
    report: Report,
    folder: Annotated[Path, "of the sweeps, or of the recipes"],
    *,
    recipes: Annotated[str | None, PUBLISHED, "write the recipes of this task into the folder"] = None,
    settings: Sequence[str] = (),
) -> None:
    if recipes is not None:
        write_recipes(recipes, folder, settings)
        return
    swept = {task: next(iter(sorted(folder.glob(f"*{task}/results.csv"))), None) for task in PUBLISHED}
    orders = [Order.of(task, measured(results)) for task, results in swept.items() if results is not None]
    report.tell(
        *titled("Ten recurrent cells beside the table of Jozefowicz et al. 2015"),
        "Next-step accuracy in percent, on test; theirs with their own sizes, data and search for settings.",
        "",
        *(line for order in orders for line in order.accuracies()),
        "## The order of two cells, where the paper's gap is larger than our mean spread over seeds",
        "",
        *columns(row(COLUMNS)),
        *(order.row() for order in orders),
    )
