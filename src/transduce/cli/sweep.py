"""``transduce sweep``: models side by side."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.options import Device, Plugins, RecordPath, Sets, check_record, keep_record
from transduce.errors import UserError


def sweep(
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe or a .toml file; none where --vary recipe=a,b takes several.")
    ] = None,
    vary: Annotated[
        list[str] | None, typer.Option(help="Compare values of a setting, KEY=a,b; several: all combinations.")
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="How many, from 1 on (3), or those listed: 1,5,7.")] = None,
    settings: Sets = None,
    minutes: Annotated[float | None, typer.Option(help="Train each so long instead of the recipe's budget.")] = None,
    out: Annotated[Path | None, typer.Option(help="The sweep's directory; sweeps/RECIPE if not given.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Runs trained at a time.")] = 1,
    threads: Annotated[int | None, typer.Option(min=1, help="Processor threads of each; cores / jobs.")] = None,
    device: Device = "auto",
    split: Annotated[
        str | None, typer.Option(help="Measure on valid, to choose by, or on test; as before, at first on test.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Delete cells with other settings.")] = False,
    record: RecordPath = None,
    plugin: Plugins = None,
) -> None:
    """Train a grid of models, each with several seeds, and set them side by side in a table and a picture.

    The same command again goes on with what is not finished; another grid adds to it. Without RECIPE and --vary, all
    that was asked of --out is gone on with. Status 1: something asked is not finished, which results.md names.
    """
    from transduce.sweeps import grid
    from transduce.sweeps import table as tables
    from transduce.sweeps.recording import record_sweep
    from transduce.sweeps.sweep import sweep as compare

    check_record(record)
    logging.getLogger("transduce.sweep").setLevel(logging.INFO)  # a line on standard error for each run that ends
    given = [grid.values(text) for text in vary or []]
    if len(dict(given)) < len(given):
        raise UserError("--vary names a key twice: list all its values in one, KEY=a,b,c")
    changes = [*(settings or []), *([] if minutes is None else [f"training.minutes={minutes}"])]
    try:
        results = compare(
            recipe,
            dict(given),
            None if seeds is None else _seeds(seeds),
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
    typer.echo(f"{results.out / 'results.md'}", err=True)
    keep_record(record, lambda command: record_sweep(command, results))
    if results.unfinished:
        raise typer.Exit(1)


def _seeds(text: str) -> int | list[int]:
    """A count, or a list: with a comma, as in "7," for seed 7 alone."""
    try:
        return [int(part) for part in text.split(",") if part.strip()] if "," in text else int(text)
    except ValueError:
        raise UserError(f"--seeds {text!r}: a number, or several with commas, such as 3 or 1,5,7") from None
