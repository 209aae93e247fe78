"""``transduce inspect``: what a model reads, what its search saw, and when it heard what it wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.options import BeamSize, Trained
from transduce.errors import UserError

if TYPE_CHECKING:
    from transduce.transducer import Transducer


def inspect(
    trained: Trained,
    text: Annotated[
        str, typer.Argument(help="A source: a text, or the path of a picture, a clip, a recording.", metavar="SOURCE")
    ],
    target: Annotated[str | None, typer.Option(help="Its output; the model's own if not given.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Draw it (.png, .svg, .pdf; heat maps of a signal: .html too; a tree: .html, .svg; frames: .svg)."
        ),
    ] = None,
    head: Annotated[int | None, typer.Option(min=0, help="One of many heads; their average if not given.")] = None,
    beam_tree: Annotated[
        bool, typer.Option("--beam-tree", help="What the search looked at, as a tree, instead of the attention.")
    ] = False,
    pruned: Annotated[bool, typer.Option("--pruned", help="In the tree, also what was looked at and left.")] = False,
    beam: BeamSize = None,
    frames: Annotated[
        bool, typer.Option("--frames", help="The frames of each token, of a CTC model, instead of the attention.")
    ] = False,
    units: Annotated[
        bool, typer.Option("--units", help="How a joint n-gram model cuts source and output, instead of the attention.")
    ] = False,
) -> None:
    """Show what a model reads of a source as it writes: its attention or, of a CTC model, the frames, or of a joint
    n-gram model the units; or what its search saw."""
    _check(units, frames, beam_tree, pruned, {"--head": head, "--beam": beam, "--target": target, "--out": out})
    if units:
        _units(trained, text, target)
    elif frames:
        _frames(trained, text, target, beam, out)
    elif beam_tree:
        _tree(trained, text, beam, pruned, out)
    else:
        _attention(trained, text, target, head, out)


def _check(units: bool, frames: bool, beam_tree: bool, pruned: bool, given: Mapping[str, object]) -> None:
    """Raise ValueError for an option that has no say in what is to be shown."""
    there = {name for name, value in given.items() if value is not None}
    if units and (frames or beam_tree or pruned or there - {"--target"}):
        raise UserError(
            "--units writes two lines of text, in which --frames, --beam-tree, --pruned, --head, --beam and --out have "
            "no say: leave them out"
        )
    if frames and (beam_tree or pruned or "--head" in there):
        raise UserError(
            "--frames is of alignments, in which --beam-tree and --head have no say, nor has --pruned: leave them out"
        )
    if frames and {"--beam", "--target"} <= there:
        raise UserError("--beam is of a search, and with --target nothing is searched for: leave out one of them")
    if pruned and not beam_tree:
        raise UserError("--pruned is of the tree of a search: add --beam-tree")
    if "--beam" in there and not (beam_tree or frames):
        raise UserError(
            "--beam is of the search that --beam-tree or --frames show: add one of them, or to see the attention of "
            "another search's output set it, --set search.size=5"
        )
    if beam_tree and {"--head", "--target"} & there:
        raise UserError("--beam-tree is of a search, in which --target and --head have no say: leave them out")


def _attention(trained: Trained, text: str, target: str | None, head: int | None, out: Path | None) -> None:
    from transduce.inspect.attention import attention, plot

    transducer = trained.load()
    if transducer.source_tokenizer.signal:
        _gaze(transducer, text, target, head, out)
        return
    found = attention(transducer, text, target, head)
    if out is not None:
        plot(found, out)
    elif len(trained.runs) == 1:
        print("\n".join(found.lines()))
    else:
        for name in found.weights:
            print("\n".join([name, *found.lines(name), ""]))


def _gaze(transducer: Transducer, path: str, target: str | None, head: int | None, out: Path | None) -> None:
    from transduce.inspect.signal_attention import signal_attention
    from transduce.reports.heat_map import write

    found = signal_attention(transducer, path, target, head)
    if out is None:
        print("\n".join(found.lines()))
    else:
        write(found, out)


def _tree(trained: Trained, text: str, beam: int | None, pruned: bool, out: Path | None) -> None:
    from transduce.inspect.beams import beam_tree
    from transduce.pages.page import write
    from transduce.reports.beam_tree import page, svg

    if out is not None and out.suffix not in (".html", ".svg"):
        raise UserError(f"--out {out}: the tree is drawn as .html, a page, or .svg; end the name with one of them")
    transducer = trained.load(beam)
    tree = beam_tree(transducer, text)
    if out is None:
        print("\n".join(tree.lines(pruned)))
    else:
        write(out, svg(tree, pruned) if out.suffix == ".svg" else page(tree, pruned))


def _units(trained: Trained, text: str, target: str | None) -> None:
    from transduce.inspect.units import units

    print("\n".join(units(trained.load(), text, target).lines()))


def _frames(trained: Trained, text: str, target: str | None, beam: int | None, out: Path | None) -> None:
    from transduce.answers.answer import with_warnings
    from transduce.answers.frames import alignment_lattice, frame_alignments
    from transduce.answers.request import Request
    from transduce.pages.page import write
    from transduce.reports.lattice import svg

    if out is not None and out.suffix != ".svg":
        raise UserError(f"--out {out}: frames are drawn as .svg; end the name with it")
    transducer = trained.load(beam)
    (answer,) = with_warnings(transducer.answer([Request(text, target=target)]))
    best = replace(answer, outputs=answer.outputs[:1])
    ((alignment,),) = frame_alignments(transducer, [best])
    found = alignment.checked()
    if out is not None:
        write(out, svg(alignment_lattice(transducer, best), found.output.tokens[:-1]))
        return
    print(f"log-probability {found.output.log_prob:.3f}, of this alignment alone {found.log_prob:.3f}")
    print(" ".join(found.path()))
    for token, (first, last) in zip(found.output.tokens, found.frames, strict=False):
        print(f"{first:5}-{last:<5} {token}")
