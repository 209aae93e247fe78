"""The commands of ``transduce vectors``."""

from __future__ import annotations

import typer

from transduce.cli.options import with_option_groups
from transduce.wings.vectors.commands.bias import bias, debias
from transduce.wings.vectors.commands.measures import analogies, misspellings, similarity
from transduce.wings.vectors.commands.questions import convert, neighbours, odd_one_out, train
from transduce.wings.vectors.commands.sentences import nearest, sentences

vectors = typer.Typer(
    help="""Train, question and measure word vectors: files of them, or the tables of a run.

    \b
    Examples:
      transduce vectors train corpus.txt --out vectors.txt
      transduce vectors neighbours vectors.txt king
    """,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for command in (
    train,
    convert,
    neighbours,
    odd_one_out,
    similarity,
    analogies,
    misspellings,
    bias,
    debias,
    sentences,
    nearest,
):
    vectors.command()(with_option_groups(command))
