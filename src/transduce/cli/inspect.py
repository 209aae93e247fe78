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
        Path | None, typer.Option(help="Draw a picture (.png, .svg, .pdf; a tree: .html, .svg) instead of text.")
    ] = None,
    head: Annotated[int | None, typer.Option(min=0, help="One of many heads; their average if not given.")] = None,
    beam_tree: Annotated[
        bool, typer.Option("--beam-tree", help="What the search looked at, as a tree, instead of the attention.")
    ] = False,
    pruned: Annotated[bool, typer.Option("--pruned", help="In the tree, also what was looked at and left.")] = False,
    beam: BeamSize = None,
) -> None:
    """Show what a model reads of a source as it writes: its attention; or what its search saw."""
    if pruned and not beam_tree:
        raise ValueError("--pruned is of the tree of a search: add --beam-tree")
    if not beam_tree:
        _attention(trained, text, target, head, out)
    elif target is not None or head is not None:
        raise ValueError("--beam-tree is of a search, in which --target and --head have no say: leave them out")
    else:
        _tree(trained, text, beam, pruned, out)


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


def _tree(trained: Trained, text: str, beam: int | None, pruned: bool, out: Path | None) -> None:
    from transduce.inspect.beam_page import page, svg
    from transduce.inspect.beams import beam_tree
    from transduce.pages.page import write

    if out is not None and out.suffix not in (".html", ".svg"):
        raise ValueError(f"--out {out}: the tree is drawn as .html, a page, or .svg; end the name with one of them")
    transducer = trained.load()
    tree = beam_tree(transducer, text, None if beam is None else transducer.search.resized(beam))
    if out is None:
        print("\n".join(tree.lines(pruned)))
    else:
        write(out, svg(tree, pruned) if out.suffix == ".svg" else page(tree, pruned))
