"""``transduce runs``: the runs below a folder, in a table."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

COLUMNS = ("run", "recipe", "on validation", "updates", "minutes", "MB", "trained")
DEPTH = 4  # folders below the given one; a run's own folders are not looked into


@dataclass(frozen=True)
class ListedRun:
    """A run directory. ``recipe``: of the command of its first training. ``scores``: of the best checkpoint, on the
    validation data. ``megabytes``: of its weights. ``trained``: when the last training began. A fact that is not known
    is None.
    """

    run: str
    recipe: str | None
    scores: dict[str, float]
    updates: int | None
    minutes: float | None
    megabytes: float | None
    trained: str | None


def runs(
    folder: Annotated[Path, typer.Argument(help="The folder in which runs are looked for.")] = Path("runs"),
    json: Annotated[bool, typer.Option("--json", help="One JSON object for each run.")] = False,
) -> None:
    """List the runs below a folder: recipe, scores on validation, updates, minutes, size and date.

    \b
    Examples:
      transduce runs
      transduce runs experiments --json
    """
    from transduce.cli.formats import as_json
    from transduce.core.errors import UserError

    if not folder.is_dir():
        raise UserError(f"{folder} is no folder: name the folder of your runs, or train one with `transduce train`")
    found = [described(run, folder) for run in directories(folder)]
    if json:
        for each in found:
            print(as_json(asdict(each)))
    elif found:
        _print_table(found)
    else:
        print(f"{folder} has no run: a run is a folder with config.toml, which `transduce train` makes")


def directories(folder: Path, depth: int = DEPTH) -> Iterator[Path]:
    """Yields the run directories in a folder and below it, sorted by path."""
    from transduce.runs.layout import CONFIG

    if (folder / CONFIG).is_file():
        yield folder
        return
    for inner in sorted(folder.iterdir() if depth else ()):
        if inner.is_dir() and not inner.name.startswith("."):
            yield from directories(inner, depth - 1)


def described(run: Path, folder: Path) -> ListedRun:
    """The facts that the files of a run directory tell. A file that is damaged or missing tells nothing."""
    from contextlib import suppress

    from transduce.core.errors import UserError
    from transduce.runs.history import read_history
    from transduce.runs.layout import find_weights
    from transduce.wings.records.making import effort_of, validation_scores

    scores, effort, megabytes, history = {}, None, None, read_history(run)
    with suppress(UserError, OSError):
        scores, effort = validation_scores(run), effort_of(run)
    with suppress(UserError, OSError):
        megabytes = find_weights(run, "best").stat().st_size / 1e6
    return ListedRun(
        str(run.relative_to(folder)) if run != folder else str(run),
        _recipe(history[0].get("command")) if history else None,
        {name: score for name, score in scores.items() if isinstance(score, (int, float))},
        effort.updates if effort else None,
        effort.minutes if effort else None,
        megabytes,
        str(history[-1].get("time"))[:16].replace("T", " ") if history else None,
    )


def _recipe(command: object) -> str | None:
    """The recipe that a command line trained; None if it was not `transduce train`."""
    if not isinstance(command, list) or "train" not in command[:-1]:
        return None
    return str(command[command.index("train") + 1])


WIDE = 10_000  # columns of a file or a pipe
SPARED = ("recipe", "updates", "MB")  # columns that a narrow terminal lacks, the first one first


def _print_table(found: list[ListedRun]) -> None:
    """Prints the table, whole into a file. On a narrow terminal it leaves out columns before it folds names."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(width=WIDE)
    unlimited = console.options.update(max_width=WIDE)
    for count in range(len(SPARED) + 1):
        table = _table(found, SPARED[:count])
        if console.measure(table, options=unlimited).maximum <= console.width:
            break
    console.print(table)


def _table(found: list[ListedRun], without: Sequence[str]) -> Table:
    from rich.table import Table

    from transduce.core.finite import readable

    cells: dict[str, list[str]] = {name: [] for name in COLUMNS if name not in without}
    for each in found:
        scores = {name: f"{name} {readable(score, 4)}" for name, score in each.scores.items()}
        metrics = [score for name, score in scores.items() if name != "loss"]
        row = {
            "run": each.run,
            "recipe": each.recipe or "–",
            "on validation": ", ".join(metrics or scores.values()) or "–",
            "updates": "–" if each.updates is None else f"{each.updates:,}",
            "minutes": "–" if each.minutes is None else f"{each.minutes:.1f}",
            "MB": "–" if each.megabytes is None else f"{each.megabytes:.1f}",
            "trained": each.trained or "–",
        }
        for name, column in cells.items():
            column.append(row[name])
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in cells:
        texts, number = name in ("run", "recipe", "on validation"), name in ("updates", "minutes", "MB")
        table.add_column(name, overflow="fold", justify="right" if number else "left", no_wrap=not texts)
    for row_cells in zip(*cells.values(), strict=True):
        table.add_row(*row_cells)
    return table
