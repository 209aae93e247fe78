"""``transduce fit``: a model chosen for the user's data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.options import Device, Threads


def fit(
    train: Annotated[
        list[str],
        typer.Argument(help="A table, a folder of recordings or pictures, or two files of texts.", metavar="TRAIN..."),
    ],
    valid: Annotated[
        list[str] | None, typer.Option(help="Pairs to choose by; twice for two files.", metavar="FILE")
    ] = None,
    test: Annotated[
        list[str] | None,
        typer.Option(
            help="Pairs to measure on at the end; twice for two files. 10% holds out a tenth of the sources.",
            metavar="FILE|PERCENT",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run directory; by default runs/fit.", metavar="RUN")] = None,
    minutes: Annotated[float | None, typer.Option(help="Plan the whole work for about so long.")] = None,
    prefer: Annotated[
        str, typer.Option(help="quality, or speed: the fastest model that is not significantly worse.")
    ] = "quality",
    task: Annotated[str | None, typer.Option(help="The task, if the data suggest another one.")] = None,
    metric: Annotated[str | None, typer.Option(help="The metric to choose by.")] = None,
    candidates: Annotated[str | None, typer.Option(help="Only these candidates of the task: NAME,NAME.")] = None,
    rules: Annotated[Path | None, typer.Option(help="Your own rules instead of tasks.toml.", metavar="FILE")] = None,
    source: Annotated[str | None, typer.Option(help="The column of the sources: a name, or a number from 0.")] = None,
    target: Annotated[str | None, typer.Option(help="The column of the targets.")] = None,
    labels: Annotated[
        str | None, typer.Option(help="Columns of labels or features before the source: COLUMN,COLUMN.")
    ] = None,
    drop_shared: Annotated[
        bool,
        typer.Option("--drop-shared", help="Leave pairs out of training whose source is in --valid or --test."),
    ] = False,
    look: Annotated[bool, typer.Option("--look", help="Only say what the data are, and what would be tried.")] = False,
    device: Device = "auto",
    threads: Threads = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Delete the work of an earlier call.")] = False,
) -> None:
    """Choose a model for your data: train the candidates for its task, and keep the best with a report.

    \b
    Examples:
      transduce fit pairs.tsv --test 10% --minutes 10 --out runs/mine
      transduce fit train.tsv --test test.tsv --drop-shared
      transduce fit train.de train.en --out runs/de-en
    """
    from transduce.wings.fitting.fit import Wishes, look_at
    from transduce.wings.fitting.fit import fit as choose
    from transduce.wings.fitting.given import Columns

    def tell(line: str) -> None:
        typer.echo(line, err=True)

    columns = Columns(source, target, tuple(labels.split(",")) if labels else ())
    names = tuple(candidates.split(",")) if candidates else ()
    wishes = Wishes(prefer, task, metric, names, rules, columns, drop_shared)
    if look:
        for line in look_at(train, valid, test, wishes):
            print(line)
        return
    try:
        fitted = choose(train, valid, test, out, minutes, wishes, device, threads, overwrite, tell)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    print(fitted.run, flush=True)
    tell(f"read why it was chosen, and its errors: {fitted.report}")
    tell(f"try it in the browser, and ask it from programs: transduce serve {fitted.run}")
    tell(f"answer a file: transduce predict {fitted.run} < sources.txt")
