"""Where the command line begins. Commands import torch, and what needs it, inside: ``--help`` answers at once."""

from __future__ import annotations

import io
import logging
import os
import sys

import typer

from transduce.cli.commands import data, predict, recipes, score, train
from transduce.cli.compare import compare
from transduce.cli.distance import distance
from transduce.cli.evaluate import evaluate
from transduce.cli.inspect import inspect
from transduce.cli.lattice import lattice
from transduce.cli.options import spread
from transduce.cli.rerank import rerank
from transduce.cli.shortlist import shortlist
from transduce.cli.sweep import sweep
from transduce.errors import StoppedError, UserError

app = typer.Typer(
    help="Learn to turn one sequence into another: train on pairs, then predict, evaluate and score.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
COMMANDS = (
    *(train, predict, rerank, score, evaluate, compare, sweep, shortlist, recipes, data),
    *(inspect, distance, lattice),
)
for command in COMMANDS:
    app.command()(spread(command))


def main() -> None:
    """The entry point. A user's mistake, a file that cannot be read or written, and work that had to stop are reported
    in one line with status 2. Any other error is a bug and keeps its traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # all text is UTF-8, whatever the locale would have
        sys.stdout.reconfigure(encoding="utf-8", errors=sys.stdout.errors)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        app()  # which lets a reader that went away (`| head`) pass, with status 1
    except (UserError, OSError, StoppedError) as error:
        if os.environ.get("TRANSDUCE_TRACE"):
            raise
        typer.echo(f"transduce: {error}", err=True)
        sys.exit(2)
