"""``transduce inspect``: shows attention, labels, links, frames, units, phrases, or the tree of a search."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.options import BeamSize, RunOptions
from transduce.cli.views import ATTENTION, Asked, show
from transduce.errors import UserError


def inspect(
    trained: RunOptions,
    text: Annotated[
        str, typer.Argument(help="A source: a text, or the path of a picture, a clip, a recording.", metavar="SOURCE")
    ],
    target: Annotated[str | None, typer.Option(help="Its output; by default the model's own best output.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Draw it in a file (.png, .svg, .pdf; attention, signals, links and labels also .html, a sentence and "
            "labels also .json; a beam tree .html, .svg; --phrases .html, .svg, .json; --gradients and --rank also "
            ".json; frames .svg)."
        ),
    ] = None,
    head: Annotated[int | None, typer.Option(min=0, help="Show one attention head; by default the average.")] = None,
    beam_tree: Annotated[
        bool, typer.Option("--beam-tree", help="Show the hypotheses of the beam search as a tree.")
    ] = False,
    pruned: Annotated[bool, typer.Option("--pruned", help="Include pruned hypotheses in the tree.")] = False,
    beam: BeamSize = None,
    frames: Annotated[bool, typer.Option("--frames", help="Show the frames of each token, for a CTC model.")] = False,
    units: Annotated[
        bool, typer.Option("--units", help="Show how a joint n-gram model cuts source and output into units.")
    ] = False,
    phrases: Annotated[
        bool,
        typer.Option(
            "--phrases", help="Show the phrases of a phrase-based model and their scores; with --out, its stacks."
        ),
    ] = False,
    series: Annotated[
        bool,
        typer.Option("--series", help="Show a forecast with its intervals, and the components of a Kalman filter."),
    ] = False,
    gradients: Annotated[
        bool, typer.Option("--gradients", help="Show how far gradients reach back in a recurrent decoder.")
    ] = False,
    rank: Annotated[
        bool, typer.Option("--rank", help="Show how equal a Transformer's states become with depth, and without skips.")
    ] = False,
    cells: Annotated[
        bool,
        typer.Option("--cells", help="Show the units of a recurrent language model; SOURCE is a text or its file."),
    ] = False,
    unit: Annotated[int | None, typer.Option(min=0, help="With --cells: the number of the unit to show.")] = None,
    track: Annotated[
        str | None,
        typer.Option(help="With --cells: find units that follow quotes, brackets, indentation or place (in the line)."),
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="With --out page.html: show this run beside it.", metavar="RUN")
    ] = None,
    distance: Annotated[
        int | None, typer.Option(min=2, help="Tokens to look back with --gradients.", show_default="10")
    ] = None,
) -> None:
    """Show the attention to a source while the model writes its output, the posterior probabilities of a chain's
    labels, or the links of a word aligner. Options show other views: the frames of a CTC model, the units of a joint
    n-gram model, the phrases of a phrase-based model, the hypotheses of a beam search, a series with its
    forecast, the reach of gradients, the rank of a Transformer's states, or the units of a recurrent model."""
    views = {
        "--beam-tree": beam_tree,
        "--frames": frames,
        "--units": units,
        "--phrases": phrases,
        "--series": series,
        "--gradients": gradients,
        "--rank": rank,
        "--cells": cells,
    }
    chosen = [name for name, given in views.items() if given]
    if len(chosen) > 1:
        raise UserError(f"{' and '.join(chosen)} are different views: give one of them")
    asked = Asked(trained, text, target, out, head, beam, pruned, distance, unit, track, against)
    show(chosen[0] if chosen else ATTENTION, asked)
