"""``transduce map``: sentences or words as points of a plane."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli import formats, inputs
from transduce.cli.options import BatchSize, Files, LoadingOptions
from transduce.core.errors import UserError
from transduce.wings.vectors.commands.embed import vectors_of_lines

SUFFIXES = (".html", ".svg", ".json")


def map_(
    loading: LoadingOptions,
    system: Annotated[
        Path, typer.Argument(help="A run with an encoder, or a file of word vectors.", metavar="RUN|VECTORS")
    ],
    files: Files = None,
    out: Annotated[Path, typer.Option(help="The page, the drawing or the data (.html, .svg, .json).")] = Path(
        "map.html"
    ),
    method: Annotated[str, typer.Option(help="pca, tsne or umap; the last two need the extra maps.")] = "pca",
    labels: Annotated[
        bool, typer.Option("--labels", help="The last column of each line, after a tab, is a label for the colour.")
    ] = False,
    pooling: Annotated[str, typer.Option(help="Of a run: own, mean, max or summary, as in embed.")] = "own",
    seed: Annotated[int, typer.Option(min=0, help="Of tsne and umap: another seed gives another map.")] = 1,
    batch_size: BatchSize = 64,
) -> None:
    """Draw the vectors of lines, sentences or words, as points of a plane. A point tells its text.

    \b
    Examples:
      transduce map runs/de-en sentences.txt --out map.html
    """
    from transduce.wings.pages.page import write
    from transduce.wings.vectors.map_report import STYLE, drawing, map_page
    from transduce.wings.vectors.representations.maps import mapped

    if out.suffix not in SUFFIXES:
        raise UserError(f"--out {out}: a map is a page .html, a drawing .svg, or data .json; end the name so")
    lines = list(inputs.lines(files))
    colours = [""] * len(lines)
    if labels:
        without = next((number for number, line in enumerate(lines, 1) if "\t" not in line), None)
        if without is not None:
            raise UserError(f"line {without} has no tab, and --labels expects a label after one: leave --labels out")
        lines, colours = (list(column) for column in zip(*(line.rsplit("\t", 1) for line in lines), strict=True))
    matrix_ND = vectors_of_lines(loading, system, lines, pooling, batch_size)
    found = mapped(matrix_ND, lines, colours, method, seed)  # type: ignore[arg-type]
    if out.suffix == ".json":
        write(out, formats.as_json(found.record()) + "\n")
    else:
        write(out, map_page(found, f"Map of {system.name}") if out.suffix == ".html" else drawing(found).alone(STYLE))
