"""The entry point of the command line. Commands import torch inside their functions, so that ``--help`` is quick."""

from __future__ import annotations

import io
import logging
import os
import sys

import typer

from transduce.cli.align import align
from transduce.cli.back_translate import back_translate
from transduce.cli.benchmark import benchmark
from transduce.cli.chat import chat
from transduce.cli.compare import compare
from transduce.cli.complete import complete
from transduce.cli.data import data
from transduce.cli.distance import distance
from transduce.cli.embed import embed
from transduce.cli.evaluate import evaluate
from transduce.cli.examine import examine
from transduce.cli.export import export
from transduce.cli.generate import generate
from transduce.cli.heads import heads
from transduce.cli.importing import import_
from transduce.cli.inspect import inspect
from transduce.cli.lattice import lattice
from transduce.cli.map import map_
from transduce.cli.music import music
from transduce.cli.ngram import ngram
from transduce.cli.options import with_option_groups
from transduce.cli.pack import pack, pull, push
from transduce.cli.predict import predict
from transduce.cli.rank import rank
from transduce.cli.recipes import recipes
from transduce.cli.rerank import rerank
from transduce.cli.score import score
from transduce.cli.serve import serve
from transduce.cli.shortlist import shortlist
from transduce.cli.sweep import sweep
from transduce.cli.train import train
from transduce.cli.vectors.app import vectors
from transduce.errors import StoppedError, UserError

app = typer.Typer(
    help="Learn to turn one sequence into another: train on pairs, then predict, evaluate and score.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
COMMANDS = (
    train,
    predict,
    complete,
    back_translate,
    generate,
    chat,
    music,
    embed,
    rerank,
    rank,
    score,
    evaluate,
    compare,
    sweep,
    align,
    shortlist,
    ngram,
    recipes,
    data,
    benchmark,
    inspect,
    examine,
    heads,
    distance,
    lattice,
    map_,
    export,
    import_,
    pack,
    push,
    pull,
    serve,
)
for command in COMMANDS:
    name = command.__name__.strip("_").replace("_", "-")  # import_ has the name of a keyword
    app.command(name)(with_option_groups(command))
app.add_typer(vectors, name="vectors")


def main() -> None:
    """Runs the command line. A UserError, an OSError or a StoppedError becomes one line on standard error and exit
    status 2.

    Any other error is a bug and keeps its traceback. If the environment variable ``TRANSDUCE_TRACE`` is set, every
    error keeps its traceback.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # all text is UTF-8, for every locale
        sys.stdout.reconfigure(encoding="utf-8", errors=sys.stdout.errors)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        app()  # it ends with status 1 if the reader closes the pipe (`| head`)
    except (UserError, OSError, StoppedError) as error:
        if os.environ.get("TRANSDUCE_TRACE"):
            raise
        typer.echo(f"transduce: {error}", err=True)
        sys.exit(2)
