"""``transduce train``: train a model."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.options import Device, Plugins, SetOption, Threads
from transduce.core.errors import UserError
from transduce.core.plugins import load_plugins


def train(
    recipe: Annotated[str, typer.Argument(help="A recipe (see `transduce recipes`) or a .toml file.")],
    settings: SetOption = None,
    out: Annotated[Path | None, typer.Option(help="The run directory; by default runs/RECIPE.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Train for this long instead of the recipe's budget.")] = None,
    init: Annotated[
        Path | None, typer.Option(help="Start from the parameters of this run that fit.", metavar="RUN")
    ] = None,
    keep_old: Annotated[
        float | None, typer.Option(help="With --init: the share of pairs drawn from that run's data.", metavar="SHARE")
    ] = None,
    teacher: Annotated[Path | None, typer.Option(help="Learn also from this run, or RUN+RUN.", metavar="RUN")] = None,
    freeze: Annotated[
        str | None, typer.Option(help="Parameters that keep their values: encoder,decoder.embedding")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the last checkpoint.")] = False,
    new_data: Annotated[
        bool, typer.Option("--new-data", help="With --resume: continue although the data have changed.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Delete the run that is already there.")] = False,
    device: Device = "auto",
    threads: Threads = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Measure a few updates: their time and memory, and the largest token budget."),
    ] = False,
    processes: Annotated[
        int, typer.Option(min=1, help="Processes on this machine; each takes a part of every batch.")
    ] = 1,
    plugin: Plugins = None,
) -> None:
    """Train a model. The run directory then has everything that is needed to use it.

    \b
    Examples:
      transduce train g2p
      transduce train translation --set data.train.path=train.tsv --minutes 30
      transduce train translation --out runs/translation --resume
    """
    from transduce import api
    from transduce.compute.threads import check_number
    from transduce.training.job import NEW_DATA
    from transduce.training.request import TrainingRequest

    if (
        check_number("processes", processes) > 1 and "WORLD_SIZE" not in os.environ
    ):  # torchrun sets it in the processes that it starts
        _start(processes)

    load_plugins(plugin)
    if new_data and not resume:
        raise UserError("--new-data goes on with changed data: give --resume with it, or leave it out")
    changes = list(settings or [])
    if minutes is not None:
        changes.append(f"training.minutes={minutes}")
    if keep_old is not None:
        changes.append(f"init.keep_old={keep_old}")
    if freeze is not None:
        changes.append(f"training.freeze={json.dumps(freeze.split(','))}")
    request = TrainingRequest(
        recipe,
        out,
        settings=changes,
        resume=NEW_DATA if new_data else resume,
        overwrite=overwrite,
        init=init,
        teacher=teacher,
    )
    if dry_run:
        for line in api.dry_run(request, device, threads):
            print(line)
        return
    try:
        run = api.train_run(request, device=device, threads=threads)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    if os.environ.get("RANK", "0") == "0":  # torchrun starts several processes, and one of them reports
        print(run)


def _start(processes: int) -> None:
    """Replaces this program by torchrun, which starts ``processes`` copies of this command."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    os.execv(sys.executable, [*torchrun, "-m", "transduce", *sys.argv[1:]])
