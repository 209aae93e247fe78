"""``transduce inspect``: what a model reads, and what its search saw."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.options import BeamSize, Trained


def inspect(
    trained: Trained,
    text: Annotated[str, typer.Argument(help="A source.", metavar="TEXT")],
    target: Annotated[str | None, typer.Option(help="Its output; the model's own if not given.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Draw a picture (.png, .svg, .pdf; a tree: .html) instead of text.")
    ] = None,
    head: Annotated[int | None, typer.Option(min=0, help="One of many heads; their average if not given.")] = None,
    beam_tree: Annotated[
        bool, typer.Option("--beam-tree", help="What the search looked at, as a tree, instead of the attention.")
    ] = False,
    beam: BeamSize = None,
) -> None:
    """Show what a model reads of a source as it writes: its attention; or what its search saw."""
    if not beam_tree:
        _attention(trained, text, target, head, out)
    elif target is not None or head is not None:
        raise ValueError("--beam-tree is of a search, in which --target and --head have no say: leave them out")
    else:
        _tree(trained, text, beam, out)


def _attention(trained: Trained, text: str, target: str | None, head: int | None, out: Path | None) -> None:
    from transduce.inspect.attention import attention, plot

    found = attention(trained.load(), text, target, head)
    if out is not None:
        plot(found, out)
    elif len(trained.runs) == 1:
        print("\n".join(found.lines()))
    else:
        for name in found.weights:
            print("\n".join([name, *found.lines(name), ""]))


def _tree(trained: Trained, text: str, beam: int | None, out: Path | None) -> None:
    from transduce.inspect.beam_page import page
    from transduce.inspect.beams import beam_tree

    if out is not None and out.suffix not in (".html", ".htm"):
        raise ValueError(f"--out {out}: the tree is drawn as a page, so a name ending in .html was expected")
    transducer = trained.load()
    tree = beam_tree(transducer, text, None if beam is None else transducer.search.resized(beam))
    if out is None:
        print("\n".join(tree.lines()))
    else:
        out.write_text(page(tree), encoding="utf-8")
