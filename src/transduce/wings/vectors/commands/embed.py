"""``transduce embed``: the vectors of sentences."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli import inputs
from transduce.cli.options import BatchSize, Files, LoadingOptions
from transduce.core.errors import UserError

if TYPE_CHECKING:
    from transduce.answers.transducer import Transducer
    from transduce.wings.vectors.table import Floats

WEIGHTS = ("none", "sif")


def embed(
    loading: LoadingOptions,
    system: Annotated[
        Path, typer.Argument(help="A run with an encoder, or a file of word vectors.", metavar="RUN|VECTORS")
    ],
    files: Files = None,
    out: Annotated[Path | None, typer.Option(help="Write here instead of standard output.", metavar="FILE.npy")] = None,
    pooling: Annotated[
        str | None,
        typer.Option(help="Of a run: own (the model's way, else mean), mean or max of the states, or summary."),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(help="Of a file of vectors: none (plain average), or sif (rare words more, no common component)."),
    ] = None,
    batch_size: BatchSize = 64,
) -> None:
    """Write one vector for each line as a NumPy file: a matrix of float32, a row for each line.

    \b
    Examples:
      transduce embed runs/sentences sentences.txt --out vectors.npy
    """
    import io

    import numpy as np

    from transduce.core.files import write_file

    if out is None and sys.stdout.isatty():
        raise UserError("the vectors are bytes and no text: give --out FILE.npy, or redirect the output, > vectors.npy")
    if system.is_dir():
        if weights is not None:
            raise UserError(f"--weights {weights}: {system} is a run; set --pooling, or give a file of word vectors")
        transducer = loading.of(system)
        lines = inputs.sources(files, transducer)
        matrix_ND = _of_run(transducer, lines, pooling or "own", batch_size)
    else:
        if pooling is not None:
            raise UserError(f"--pooling {pooling}: {system} is a file of word vectors; set --weights, or give a run")
        matrix_ND = _of_words(system, list(inputs.lines(files)), weights or "none")
    if out is not None:

        def fill(scratch: Path) -> None:
            with scratch.open("wb") as file:
                np.save(file, matrix_ND)

        write_file(out, fill)
        return
    written = io.BytesIO()
    np.save(written, matrix_ND)
    sys.stdout.buffer.write(written.getvalue())


def vectors_of_lines(
    loading: LoadingOptions, system: Path, lines: Sequence[str], pooling: str, batch_size: int
) -> Floats:
    """The vectors of the lines: of a run, reduced by ``pooling``, or plain averages of the word vectors in a file."""
    if system.is_dir():
        return _of_run(loading.of(system), lines, pooling, batch_size)
    return _of_words(system, lines, "none")


def _of_run(transducer: Transducer, lines: Iterable[str], pooling: str, batch_size: int) -> Floats:
    from transduce.wings.vectors.representations.sentences import sentence_vectors, stacked

    return stacked(sentence_vectors(transducer, lines, pooling, batch_size))  # type: ignore[arg-type]


def _of_words(path: Path, lines: Sequence[str], weights: str) -> Floats:
    """The averages of word vectors. With "sif", words are counted in the given lines."""
    from transduce.wings.vectors.corpus import counted
    from transduce.wings.vectors.files import load
    from transduce.wings.vectors.sentences import SmoothInverseFrequency, average

    if weights not in WEIGHTS:
        raise UserError(f"--weights {weights!r}: expected {', '.join(WEIGHTS)}")
    if not lines:
        raise UserError("there are no sentences to embed: give a text of at least one line")
    counts = counted(lines)
    vectors = load(path, list(counts) or [""])
    return average(vectors, lines) if weights == "none" else SmoothInverseFrequency.fit(vectors, counts, lines)(lines)
