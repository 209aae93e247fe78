"""``transduce sweep``: train a grid of models and compare them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.options import Device, Plugins, RecordOptions, SetOption
from transduce.core.errors import UserError


def sweep(
    recorded: RecordOptions,
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe or a .toml file; leave it out with --vary recipe=a,b.")
    ] = None,
    vary: Annotated[
        list[str] | None, typer.Option(help="Compare values of a setting, KEY=a,b; several: all combinations.")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="The number of seeds, from 1 (3), or a list of seeds: 1,5,7.")
    ] = None,
    settings: SetOption = None,
    minutes: Annotated[
        float | None, typer.Option(help="Train each run for this long instead of the recipe's budget.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The sweep's directory; by default sweeps/RECIPE.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Runs to train at the same time.")] = 1,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Processor threads of each; by default cores / jobs.")
    ] = None,
    device: Device = "auto",
    split: Annotated[
        str | None,
        typer.Option(help="Measure on valid, to choose a model, or on test; by default as before, at first on test."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Delete cells with other settings.")] = False,
    plugin: Plugins = None,
) -> None:
    """Train a grid of models, each with several seeds, and compare them in a table and a picture.

    The same command again continues unfinished runs. Another grid adds runs. Without RECIPE and --vary, it continues
    everything in --out. Exit status 1: some runs are not finished; results.md names them.

    \b
    Examples:
      transduce sweep reverse --vary model.encoder.width=16,64 --seeds 3 --out sweeps/width
    """
    from transduce.wings.lab.sweeps import grid
    from transduce.wings.lab.sweeps import table as tables
    from transduce.wings.lab.sweeps.recording import record_sweep
    from transduce.wings.lab.sweeps.sweep import sweep as compare

    recorded.check()
    logging.getLogger("transduce.sweep").setLevel(logging.INFO)  # a line on standard error for each run that ends
    given = [grid.values(text) for text in vary or []]
    if len(dict(given)) < len(given):
        raise UserError("--vary names a key twice: list all its values in one, KEY=a,b,c")
    changes = [*(settings or []), *([] if minutes is None else [f"training.minutes={minutes}"])]
    try:
        results = compare(
            recipe,
            dict(given),
            None if seeds is None else _parse_seeds(seeds),
            changes,
            out,
            jobs,
            threads,
            device,
            overwrite,
            plugin or [],
            split,
        )
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    print(tables.table(results))
    typer.echo(f"{results.out / 'results.html'}", err=True)
    recorded.keep(lambda command: record_sweep(command, results))
    if results.unfinished:
        raise typer.Exit(1)


def _parse_seeds(text: str) -> int | list[int]:
    """Reads the option ``--seeds``. A number without a comma is the number of seeds; with a comma it is a list of
    seeds: "3" is 3, "1,5" is [1, 5], and "7," is [7]. Raises UserError for any other text.
    """
    try:
        return [int(part) for part in text.split(",") if part.strip()] if "," in text else int(text)
    except ValueError:
        raise UserError(f"--seeds {text!r}: a number, or several with commas, such as 3 or 1,5,7") from None
