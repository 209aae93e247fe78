"""``transduce vectors train``, ``convert``, ``neighbours`` and ``odd-one-out``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from transduce.cli.options import Threads
from transduce.wings.vectors.commands.options import AsJson, VectorOptions, show, show_json

if TYPE_CHECKING:
    from transduce.wings.vectors.training import Method


def train(
    files: Annotated[list[Path], typer.Argument(help="Text files; .gz is decompressed.")],
    out: Annotated[
        Path, typer.Option(help="NAME.vec: text. NAME.bin: word2vec binary, or fastText's format with --subwords.")
    ],
    method: Annotated[str, typer.Option(help="skip-gram or cbow.")] = "skip-gram",
    subwords: Annotated[bool, typer.Option("--subwords", help="Sum vectors of character n-grams (fastText).")] = False,
    width: Annotated[int, typer.Option(min=1, help="Numbers of a vector.")] = 100,
    window: Annotated[int, typer.Option(min=1, help="Words on each side.")] = 5,
    minimum_count: Annotated[int, typer.Option(min=1, help="Rarer words get no vector.")] = 5,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the text.")] = 5,
    negative: Annotated[int, typer.Option(min=1, help="Noise words for each word.")] = 5,
    rate: Annotated[float, typer.Option(help="First learning rate.")] = 0.025,
    seed: Annotated[int, typer.Option(min=0, help="Another seed gives other vectors.")] = 1,
    keep_case: Annotated[bool, typer.Option("--keep-case", help="Do not make the text lower case.")] = False,
    whole: Annotated[
        bool, typer.Option("--whole", help="Words are what stands between white space, punctuation included.")
    ] = False,
    threads: Threads = 1,
) -> None:
    """Train word vectors on text with gensim: skip-gram or CBOW, of whole words or with subwords."""
    from transduce.compute.threads import check_number
    from transduce.wings.vectors.corpus import Corpus
    from transduce.wings.vectors.training import VectorTraining
    from transduce.wings.vectors.training import train as learn

    how = VectorTraining(cast("Method", method), subwords, width, window, minimum_count, epochs, negative, rate, seed)
    corpus = Corpus(files, not keep_case, whole)
    trained = learn(
        corpus,
        how,
        check_number("threads", threads or 1),
        lambda done: typer.echo(f"epoch {done} of {epochs}", err=True),
    )
    trained.write(out)
    typer.echo(f"{len(trained.vectors):,} words, {width} numbers each", err=True)
    print(out)


def convert(
    opened: VectorOptions,
    out: Annotated[Path, typer.Argument(help="NAME.vec: word2vec text. NAME.bin: word2vec binary.", metavar="OUT")],
) -> None:
    """Write vectors, of a file or of a run, as a file in word2vec's format."""
    from transduce.wings.vectors.files import save

    vectors = opened.open()
    save(vectors, out)
    typer.echo(f"{len(vectors):,} words, {vectors.width} numbers each", err=True)
    print(out)


def neighbours(
    opened: VectorOptions,
    words: Annotated[list[str], typer.Argument(help="One word, or words whose vectors are added.")],
    minus: Annotated[
        list[str] | None, typer.Option(help="A word to subtract: neighbours VECTORS king woman --minus man")
    ] = None,
    k: Annotated[int, typer.Option("--k", min=1, help="Words to write.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Write the nearest words of a word, or of a sum of words, with their cosines."""
    from transduce.wings.vectors.neighbours import neighbours as nearest

    found = nearest(opened.open(), words, minus or [], k)
    if as_json:
        show_json({"plus": words, "minus": minus or [], "neighbours": [each._asdict() for each in found]})
    else:
        show([[each.word, f"{each.cosine:.4f}"] for each in found])


def odd_one_out(
    opened: VectorOptions,
    words: Annotated[list[str], typer.Argument(help="Three words or more.")],
    as_json: AsJson = False,
) -> None:
    """Write the words of a list with their cosines to the mean of all: the first one fits least."""
    from transduce.wings.vectors.neighbours import odd_one_out as ranked

    found = ranked(opened.open(), words)
    if as_json:
        show_json([each._asdict() for each in found])
    else:
        show([[each.word, f"{each.cosine:.4f}"] for each in found])
