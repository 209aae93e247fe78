"""The options that the commands of ``transduce vectors`` share."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli import formats

if TYPE_CHECKING:
    from transduce.wings.vectors.correlation import Estimate
    from transduce.wings.vectors.table import Vectors

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object instead of lines.")]
ExactCase = Annotated[bool, typer.Option("--exact-case", help="Tell upper and lower case apart; by default not.")]


@dataclass(frozen=True, kw_only=True)
class VectorOptions:
    """Options for opening word vectors: the file or the run, and which of its words to read."""

    vectors: Annotated[
        Path,
        typer.Argument(
            help="A file of vectors (word2vec text or binary, GloVe, fastText .vec or .bin), or a run directory.",
            metavar="VECTORS",
        ),
    ]
    limit: Annotated[int | None, typer.Option(min=1, help="Read at most this number of words, the first ones.")] = None
    first_of_two: Annotated[
        bool, typer.Option("--first-of-two", help="Take the first vector of a word that occurs twice; else an error.")
    ] = False
    table: Annotated[
        str | None,
        typer.Option(help="Of a run: its embedding of source or target tokens, or states of its encoder."),
    ] = None

    def open(self, words: Collection[str] | None = None) -> Vectors:
        """The vectors that the options name. ``words`` keeps only these words, in any case; None keeps all."""
        from transduce.wings.vectors.representations.tables import open_vectors

        return open_vectors(self.vectors, words, self.limit, self.first_of_two, self.table)  # type: ignore[arg-type]


def show(rows: Sequence[Sequence[str]], notes: Sequence[str] = (), align: str = "<>") -> None:
    """Prints a table, whose first row has the titles, and lines of notes under it."""
    from transduce.evaluation.system_results import aligned

    print("\n".join([*aligned(rows, align), *notes]))


def show_json(record: object) -> None:
    """Prints a value as JSON."""
    print(formats.as_json(record, indent=1))


def written(estimate: Estimate, digits: int = 3, factor: float = 1.0) -> str:
    """An estimate with its interval, such as "0.412 (0.380 to 0.440)", multiplied by ``factor``; "-" if it is NaN."""
    if estimate.value != estimate.value:
        return "-"
    value, low, high = (f"{factor * part:.{digits}f}" for part in estimate)
    return f"{value} ({low} to {high})"
