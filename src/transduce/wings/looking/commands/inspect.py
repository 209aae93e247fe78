"""``transduce inspect``: shows attention, labels, links, frames, units, phrases, or the tree of a search."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

import typer

from transduce.cli.options import RunOptions
from transduce.core.errors import UserError
from transduce.wings.looking.commands.views import ATTENTION, Asked, ViewOptions, show


@dataclass(frozen=True)
class ViewChoice:
    """The options that choose another view than attention. Each has the name of a view in ``views.VIEWS``."""

    beam_tree: Annotated[
        bool, typer.Option("--beam-tree", help="Show the hypotheses of the beam search as a tree.")
    ] = False
    frames: Annotated[bool, typer.Option("--frames", help="Show the frames of each token, for a CTC model.")] = False
    units: Annotated[
        bool, typer.Option("--units", help="Show how a joint n-gram model cuts source and output into units.")
    ] = False
    phrases: Annotated[
        bool,
        typer.Option(
            "--phrases", help="Show the phrases of a phrase-based model and their scores; with --out, its stacks."
        ),
    ] = False
    series: Annotated[
        bool,
        typer.Option("--series", help="Show a forecast with its intervals, and the components of a Kalman filter."),
    ] = False
    gradients: Annotated[
        bool, typer.Option("--gradients", help="Show how far gradients reach back in a recurrent decoder.")
    ] = False
    rank: Annotated[
        bool, typer.Option("--rank", help="Show how equal a Transformer's states become with depth, and without skips.")
    ] = False
    cells: Annotated[
        bool,
        typer.Option("--cells", help="Show the units of a recurrent language model; SOURCE is a text or its file."),
    ] = False

    @property
    def view(self) -> str:
        """The name of the chosen view. Raises UserError for more than one."""
        names = [f"--{each.name.replace('_', '-')}" for each in fields(self) if getattr(self, each.name)]
        if len(names) > 1:
            raise UserError(f"{' and '.join(names)} are different views: give one of them")
        return names[0] if names else ATTENTION


def inspect(
    trained: RunOptions,
    text: Annotated[
        str, typer.Argument(help="A source: a text, or the path of a picture, a clip, a recording.", metavar="SOURCE")
    ],
    choice: ViewChoice,
    options: ViewOptions,
) -> None:
    """Show the attention while the model writes its output, or another view.

    Without an option: the attention; for a chain, the posterior probabilities of its labels; for a word aligner, its
    links. Options show the frames of a CTC model, the units of a joint n-gram model, or the phrases of a phrase-based
    model. Others show the hypotheses of a beam search, a series with its forecast, the reach of gradients, the rank of
    a Transformer's states, or the units of a recurrent model.

    \b
    Examples:
      transduce inspect runs/de-en "ein mann singt" --out attention.html
      transduce inspect runs/de-en "ein mann singt" --beam 3
    """
    show(choice.view, Asked(trained, text, options))
