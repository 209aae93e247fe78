"""``transduce inspect``: shows attention, labels, links, frames, units, phrases, or the tree of a search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli.options import BeamSize, RunOptions
from transduce.errors import UserError

if TYPE_CHECKING:
    from transduce.transducer import Transducer


def inspect(
    trained: RunOptions,
    text: Annotated[
        str, typer.Argument(help="A source: a text, or the path of a picture, a clip, a recording.", metavar="SOURCE")
    ],
    target: Annotated[str | None, typer.Option(help="Its output; by default the model's own best output.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Draw it in a file (.png, .svg, .pdf; signals, links and labels also .html, labels also .json; a beam "
            "tree .html, .svg; the stacks of --phrases .html, .svg, .json; frames .svg)."
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
) -> None:
    """Show the attention to a source while the model writes its output, the posterior probabilities of a chain's
    labels, or the links of a word aligner. Options show other views: the frames of a CTC model, the units of a joint
    n-gram model, the phrases of a phrase-based model, the hypotheses of a beam search, or a series with its
    forecast."""
    if phrases:
        _check_phrases(units or frames or beam_tree or series, {"--head": head, "--beam": beam, "--target": target})
        _show_phrases(trained, text, pruned, out)
        return
    if series:
        _check_series(units or frames or beam_tree or pruned, {"--head": head, "--beam": beam, "--target": target})
        _show_series(trained, text, out)
        return
    _check_options(units, frames, beam_tree, pruned, {"--head": head, "--beam": beam, "--target": target, "--out": out})
    if units:
        _show_units(trained, text, target)
    elif frames:
        _show_frames(trained, text, target, beam, out)
    elif beam_tree:
        _show_beam_tree(trained, text, beam, pruned, out)
    else:
        _show_attention(trained, text, target, head, out)


def _load(trained: RunOptions, beam: int | None = None) -> Transducer:
    """The model to look into. Raises UserError for an engine that searches by itself."""
    from transduce.protocols import Searching, can

    transducer = trained.load(beam)
    if can(type(transducer.model), Searching):
        raise UserError(
            f"{type(transducer.model).__name__} searches by itself, so there is nothing to look into: name the run and "
            "use --engine torch"
        )
    return transducer


def _check_options(units: bool, frames: bool, beam_tree: bool, pruned: bool, values: Mapping[str, object]) -> None:
    """Raises UserError for an option that does not apply to the requested view: units, frames, a beam's tree or, if
    none of these is True, attention. ``values`` are the values of the other options, by name; None if not given.
    """
    given = {name for name, value in values.items() if value is not None}
    if units and (frames or beam_tree or pruned or given - {"--target"}):
        raise UserError(
            "--units writes two lines of text; --frames, --beam-tree, --pruned, --head, --beam and --out do not apply: "
            "leave them out"
        )
    if frames and (beam_tree or pruned or "--head" in given):
        raise UserError("--frames shows an alignment; --beam-tree, --pruned and --head do not apply: leave them out")
    if frames and {"--beam", "--target"} <= given:
        raise UserError("--beam is for a search, and with --target nothing is searched for: leave out one of them")
    if pruned and not beam_tree:
        raise UserError("--pruned is for the tree of a search: add --beam-tree, or --phrases")
    if "--beam" in given and not (beam_tree or frames):
        raise UserError(
            "--beam is for the search of --beam-tree or --frames: add one of them; to see the attention of another "
            "search's output, use --set search.size=5"
        )
    if beam_tree and {"--head", "--target"} & given:
        raise UserError("--beam-tree shows a search; --target and --head do not apply: leave them out")


def _check_series(other_view: bool, values: Mapping[str, object]) -> None:
    """Raises UserError if another option for a view (``other_view``), or one of the ``values``, is given together with
    ``--series``.
    """
    if other_view or any(value is not None for value in values.values()):
        raise UserError(
            "--series shows a forecast; --units, --frames, --beam-tree, --pruned, --head, --beam and --target do not "
            "apply: leave them out"
        )


def _check_phrases(other_view: bool, values: Mapping[str, object]) -> None:
    """Raises UserError if another option for a view (``other_view``), or one of the ``values``, is given together with
    ``--phrases``.
    """
    if other_view or any(value is not None for value in values.values()):
        raise UserError(
            "--phrases shows a derivation; --units, --frames, --beam-tree, --series, --head, --beam and "
            "--target do not apply: leave them out"
        )


def _show_phrases(trained: RunOptions, text: str, pruned: bool, out: Path | None) -> None:
    from transduce.inspect.phrases import phrases
    from transduce.inspect.stacks import stack_tree
    from transduce.pages.page import write
    from transduce.reports.search_tree import STACKS, page, svg

    if out is not None and out.suffix not in (".html", ".svg", ".json"):
        raise UserError(
            f"--out {out}: the stacks are drawn as .html, a page, or .svg, and written with the phrases as .json; end "
            "the name with one of them"
        )
    if pruned and (out is None or out.suffix == ".json"):
        raise UserError("--pruned is for the drawing of the stacks: add --out stacks.html")
    transducer = _load(trained)
    if out is None:
        print("\n".join(phrases(transducer, text).lines()))
    elif out.suffix == ".json":
        phrases(transducer, text).write(out, stack_tree(transducer, text))
    else:
        tree = stack_tree(transducer, text)
        write(out, svg(tree, pruned, STACKS) if out.suffix == ".svg" else page(tree, pruned, STACKS))


def _show_series(trained: RunOptions, text: str, out: Path | None) -> None:
    from transduce.inspect.series import read_series

    found = read_series(_load(trained), text)
    if out is None:
        print("\n".join(found.lines()))
    else:
        found.plot(out)


def _show_attention(trained: RunOptions, text: str, target: str | None, head: int | None, out: Path | None) -> None:
    from transduce.inspect.attention import attention, plot
    from transduce.protocols import Aligner, Chain, Searching, can

    transducer = _load(trained)
    _suggest_other_view(type(transducer.model))
    if can(type(transducer.model), Aligner):
        _show_links(transducer, text, target, head, out)
        return
    if can(type(transducer.model), Chain) and not can(type(transducer.model), Searching):
        _show_labels(transducer, text, target, head, out)
        return
    if transducer.source_tokenizer.signal:
        _show_signal_attention(transducer, text, target, head, out)
        return
    found = attention(transducer, text, target, head)
    if out is not None:
        plot(found, out)
    elif len(trained.runs) == 1:
        print("\n".join(found.lines()))
    else:
        for name in found.weights:
            print("\n".join([name, *found.lines(name), ""]))


def _suggest_other_view(model: type) -> None:
    """Raises UserError if models of this class have no attention but another view; the message names its option.
    Otherwise does nothing.
    """
    from transduce.inspect.units import Segmental
    from transduce.protocols import Density, Deriving, Framewise, Joint, can

    if can(model, Density):
        raise UserError(f"this {model.__name__} has no attention; it forecasts with intervals: add --series")
    if can(model, Deriving):
        raise UserError(f"this {model.__name__} has no attention; it writes phrase by phrase: add --phrases")
    if can(model, Segmental):
        raise UserError(f"this {model.__name__} has no attention; it cuts source and output into units: add --units")
    if can(model, Framewise) and not can(model, Joint):
        raise UserError(f"this {model.__name__} has no attention; it aligns outputs with frames: add --frames")


def _show_signal_attention(
    transducer: Transducer, path: str, target: str | None, head: int | None, out: Path | None
) -> None:
    from transduce.inspect.signal_attention import signal_attention
    from transduce.reports.heat_map import write

    found = signal_attention(transducer, path, target, head)
    if out is None:
        print("\n".join(found.lines()))
    else:
        write(found, out)


def _show_links(transducer: Transducer, text: str, target: str | None, head: int | None, out: Path | None) -> None:
    from transduce.inspect.links import links
    from transduce.reports.word_links import PairLinks, write

    found = links(transducer, text, target, head)
    if out is None:
        print("\n".join(found.lines()))
    else:
        write(PairLinks.of(found.found), "Word alignment", out)


def _show_labels(transducer: Transducer, text: str, target: str | None, head: int | None, out: Path | None) -> None:
    from transduce.inspect.label_posteriors import label_posteriors
    from transduce.reports.label_posteriors import write

    if head is not None:
        raise UserError(
            f"--head {head} is for attention, and inspect shows the labels of this "
            f"{type(transducer.model).__name__}: leave it out"
        )
    found = label_posteriors(transducer, text, target)
    if out is None:
        print("\n".join(found.lines()))
    else:
        write(found, out)


def _show_beam_tree(trained: RunOptions, text: str, beam: int | None, pruned: bool, out: Path | None) -> None:
    from transduce.inspect.beams import beam_tree
    from transduce.pages.page import write
    from transduce.reports.search_tree import page, svg

    if out is not None and out.suffix not in (".html", ".svg"):
        raise UserError(f"--out {out}: the tree is drawn as .html, a page, or .svg; end the name with one of them")
    tree = beam_tree(_load(trained, beam), text)
    if out is None:
        print("\n".join(tree.lines(pruned)))
    else:
        write(out, svg(tree, pruned) if out.suffix == ".svg" else page(tree, pruned))


def _show_units(trained: RunOptions, text: str, target: str | None) -> None:
    from transduce.inspect.units import units

    print("\n".join(units(_load(trained), text, target).lines()))


def _show_frames(trained: RunOptions, text: str, target: str | None, beam: int | None, out: Path | None) -> None:
    from transduce.answers.answer import with_warnings
    from transduce.answers.frame_alignments import alignment_lattice, frame_alignments
    from transduce.answers.request import Request
    from transduce.pages.page import write
    from transduce.reports.lattice import svg

    if out is not None and out.suffix != ".svg":
        raise UserError(f"--out {out}: frames are drawn as .svg; end the name with it")
    transducer = _load(trained, beam)
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
