"""The views of ``transduce inspect``: what each one shows, and which options it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli import formats
from transduce.cli.options import BeamSize, RunOptions
from transduce.core.errors import UserError
from transduce.core.registry import model_name
from transduce.core.text_files import read_text
from transduce.wings.pages.page import write

if TYPE_CHECKING:
    from transduce.answers.transducer import Transducer
    from transduce.wings.looking.inspection.sentence import SentenceReading


@dataclass(frozen=True)
class ViewOptions:
    """The options of views. An option that was not given is None or False."""

    target: Annotated[str | None, typer.Option(help="Its output; by default the model's own best output.")] = None
    out: Annotated[
        Path | None,
        typer.Option(
            help="Draw it in a file (.png, .svg, .pdf; attention, signals, links and labels also .html, a sentence and "
            "labels also .json; a beam tree .html, .svg; --phrases .html, .svg, .json; --gradients and --rank also "
            ".json; frames .svg)."
        ),
    ] = None
    head: Annotated[int | None, typer.Option(min=0, help="Show one attention head; by default the average.")] = None
    beam: BeamSize = None
    pruned: Annotated[bool, typer.Option("--pruned", help="Include pruned hypotheses in the tree.")] = False
    distance: Annotated[
        int | None, typer.Option(min=2, help="Tokens to look back with --gradients.", show_default="10")
    ] = None
    unit: Annotated[int | None, typer.Option(min=0, help="With --cells: the number of the unit to show.")] = None
    track: Annotated[
        str | None,
        typer.Option(help="With --cells: find units that follow quotes, brackets, indentation or place (in the line)."),
    ] = None
    against: Annotated[
        Path | None, typer.Option(help="With --out page.html: show this run beside it.", metavar="RUN")
    ] = None

    @property
    def given(self) -> list[str]:
        """The names of the options that were given, such as --target."""
        return [f"--{each.name}" for each in fields(self) if getattr(self, each.name) not in (None, False)]


@dataclass(frozen=True)
class Asked:
    """What to show: a run, a source, and the options of the view."""

    trained: RunOptions
    source: str
    options: ViewOptions


@dataclass(frozen=True)
class View:
    """One view: ``about`` is its subject, ``takes`` are its options, and ``show`` prints or draws it."""

    about: str
    takes: tuple[str, ...]
    show: Callable[[Asked], None]


def show(chosen: str, asked: Asked) -> None:
    """Shows the view of ``VIEWS`` with the name ``chosen``. Raises UserError for an option that the view does not
    take.
    """
    view = VIEWS[chosen]
    foreign = [option for option in asked.options.given if option not in view.takes]
    if foreign and chosen == ATTENTION:
        others = " or ".join(name for name, other in VIEWS.items() if foreign[0] in other.takes)
        raise UserError(f"{foreign[0]} is for {others}: add one of them, or leave {foreign[0]} out")
    if foreign:
        options = " and ".join(foreign)
        raise UserError(f"{chosen} shows {view.about}, to which {options} does not apply: leave it out")
    view.show(asked)


def load(trained: RunOptions, beam: int | None = None) -> Transducer:
    """The model to look into. Raises UserError for an engine that searches by itself."""
    from transduce.core.protocols import Searching, can

    transducer = trained.load(beam)
    if can(type(transducer.model), Searching):
        raise UserError(
            "the engine of this run searches by itself, so there is nothing to look into: name the run, and use "
            "--engine torch"
        )
    return transducer


def _show_phrases(asked: Asked) -> None:
    from transduce.wings.looking.inspection.phrases import phrases
    from transduce.wings.looking.inspection.stacks import stack_tree
    from transduce.wings.looking.reports.search_tree import STACKS, page, svg

    out = asked.options.out
    if out is not None and out.suffix not in (".html", ".svg", ".json"):
        raise UserError(
            f"--out {out}: the stacks are drawn as .html, a page, or .svg, and written with the phrases as .json; end "
            "the name with one of them"
        )
    if asked.options.pruned and (out is None or out.suffix == ".json"):
        raise UserError("--pruned is for the drawing of the stacks: add --out stacks.html")
    transducer = load(asked.trained)
    if out is None:
        print("\n".join(phrases(transducer, asked.source).lines()))
    elif out.suffix == ".json":
        phrases(transducer, asked.source).write(out, stack_tree(transducer, asked.source))
    else:
        tree = stack_tree(transducer, asked.source)
        write(
            out,
            svg(tree, asked.options.pruned, STACKS)
            if out.suffix == ".svg"
            else page(tree, asked.options.pruned, STACKS),
        )


def _show_series(asked: Asked) -> None:
    from transduce.wings.looking.inspection.series import read_series

    found = read_series(load(asked.trained), asked.source)
    if asked.options.out is None:
        print("\n".join(found.lines()))
    else:
        found.plot(asked.options.out)


def _show_attention(asked: Asked) -> None:
    from transduce.core.protocols import Aligner, can
    from transduce.wings.alignment.attention_weights import NoAttentionError
    from transduce.wings.looking.inspection.attention import attention, plot

    transducer = load(asked.trained)
    other = _other_view(type(transducer.model))
    if other is not None:
        show(other, asked)
        return
    if can(type(transducer.model), Aligner):
        _show_links(transducer, asked)
        return
    if _gives_labels(transducer):
        _show_labels(transducer, asked)
        return
    if transducer.source_tokenizer.signal:
        _show_signal_attention(transducer, asked)
        return
    if asked.options.out is not None and asked.options.out.suffix in (".html", ".json"):
        _show_sentence(transducer, asked)
        return
    if asked.options.against is not None:
        raise UserError(
            f"--against {asked.options.against} is for the page of a sentence: add --out page.html (or .json)"
        )
    try:
        found = attention(transducer, asked.source, asked.options.target, asked.options.head)
    except NoAttentionError:
        _show_steps(transducer, asked)
        return
    if asked.options.out is not None:
        plot(found, asked.options.out)
        return
    if len(asked.trained.runs) == 1:
        print("\n".join(found.lines()))
    else:
        for name in found.weights:
            print("\n".join([name, *found.lines(name), ""]))
    for line in _reading(transducer, asked).part_lines():
        print(line)


def _reading(transducer: Transducer, asked: Asked) -> SentenceReading:
    from transduce.wings.looking.inspection.sentence import read_sentence

    return read_sentence(str(asked.trained.run), transducer, asked.source, asked.options.target)


def _show_steps(transducer: Transducer, asked: Asked) -> None:
    """The tokens of a model without attention, with their probabilities."""
    called = model_name(type(transducer.model))
    if asked.options.head is not None:
        raise UserError(f"--head {asked.options.head}: this {called} model has no attention: leave it out")
    if asked.options.out is not None:
        raise UserError(
            f"--out {asked.options.out}: a picture is of attention, and this {called} model has none; give --out "
            "page.html or page.json"
        )
    print("\n".join(_reading(transducer, asked).lines()))


def _show_sentence(transducer: Transducer, asked: Asked) -> None:
    from transduce.wings.looking.inspection.sentence import read_sentence
    from transduce.wings.looking.reports.sentence import sentence_page

    if asked.options.head is not None:
        raise UserError(f"--head {asked.options.head}: the page shows every head; leave it out, or draw a picture")
    readings = [_reading(transducer, asked)]
    if asked.options.against is not None:
        other = asked.trained.another(asked.options.against)
        readings.append(read_sentence(str(asked.options.against), other, asked.source, asked.options.target))
    assert asked.options.out is not None
    if asked.options.out.suffix == ".json":
        found = [each.record() for each in readings]
        write(asked.options.out, formats.as_json(found if asked.options.against is not None else found[0]) + "\n")
    else:
        write(asked.options.out, sentence_page(readings))


def _other_view(model: type) -> str | None:
    """The view of models that have no attention and no probabilities of single tokens; None for other models."""
    from transduce.core.protocols import Density, Deriving, Framewise, Joint, can

    if can(model, Density):
        return "--series"
    if can(model, Deriving):
        return "--phrases"
    return "--frames" if can(model, Framewise) and not can(model, Joint) else None


def _gives_labels(transducer: Transducer) -> bool:
    """True if the number of labels follows from the source: one for each token, or one for all of it."""
    from transduce.core.protocols import Chain, Parallel, can
    from transduce.wings.labels.search import LabelSearch

    model = type(transducer.model)
    return can(model, Chain) or (can(model, Parallel) and isinstance(transducer.search, LabelSearch))


def _show_signal_attention(transducer: Transducer, asked: Asked) -> None:
    from transduce.wings.looking.inspection.signal_attention import signal_attention
    from transduce.wings.looking.reports.heat_map import write

    found = signal_attention(transducer, asked.source, asked.options.target, asked.options.head)
    if asked.options.out is None:
        print("\n".join(found.lines()))
    else:
        write(found, asked.options.out)


def _show_links(transducer: Transducer, asked: Asked) -> None:
    from transduce.wings.alignment.report import PairLinks, write
    from transduce.wings.looking.inspection.links import links

    found = links(transducer, asked.source, asked.options.target, asked.options.head)
    if asked.options.out is None:
        print("\n".join(found.lines()))
    else:
        write(PairLinks.of(found.found), "Word alignment", asked.options.out)


def _show_labels(transducer: Transducer, asked: Asked) -> None:
    from transduce.core.protocols import Chain, can
    from transduce.wings.looking.inspection.classes import read_classes
    from transduce.wings.looking.inspection.label_posteriors import label_posteriors
    from transduce.wings.looking.reports.classes import write_classes
    from transduce.wings.looking.reports.label_posteriors import write

    if asked.options.head is not None:
        raise UserError(
            f"--head {asked.options.head} is for attention, and inspect shows the labels of this "
            f"{model_name(type(transducer.model))} model: leave it out"
        )
    if can(type(transducer.model), Chain) or transducer.token_for_token:
        labels = label_posteriors(transducer, asked.source, asked.options.target)
        if asked.options.out is None:
            print("\n".join(labels.lines()))
        else:
            write(labels, asked.options.out)
        return
    found = read_classes(transducer, asked.source, asked.options.target)
    if asked.options.out is None:
        print("\n".join(found.lines()))
    else:
        write_classes(found, asked.options.out)


def _show_beam_tree(asked: Asked) -> None:
    from transduce.wings.looking.inspection.beams import beam_tree
    from transduce.wings.looking.reports.search_tree import page, svg

    out = asked.options.out
    if out is not None and out.suffix not in (".html", ".svg"):
        raise UserError(f"--out {out}: the tree is drawn as .html, a page, or .svg; end the name with one of them")
    tree = beam_tree(load(asked.trained, asked.options.beam), asked.source)
    if out is None:
        print("\n".join(tree.lines(asked.options.pruned)))
    else:
        write(out, svg(tree, asked.options.pruned) if out.suffix == ".svg" else page(tree, asked.options.pruned))


def _show_units(asked: Asked) -> None:
    from transduce.wings.looking.inspection.units import units

    print("\n".join(units(load(asked.trained), asked.source, asked.options.target).lines()))


def _show_frames(asked: Asked) -> None:
    from transduce.answers.answer import with_warnings
    from transduce.answers.request import Request
    from transduce.wings.ctc.frame_alignments import alignment_lattice, frame_alignments
    from transduce.wings.ctc.report import svg

    if asked.options.beam is not None and asked.options.target is not None:
        raise UserError("--beam is for a search, and with --target nothing is searched for: leave out one of them")
    if asked.options.out is not None and asked.options.out.suffix != ".svg":
        raise UserError(f"--out {asked.options.out}: frames are drawn as .svg; end the name with it")
    transducer = load(asked.trained, asked.options.beam)
    (answer,) = with_warnings(transducer.answer([Request(asked.source, target=asked.options.target)]))
    best = replace(answer, outputs=answer.outputs[:1])
    ((alignment,),) = frame_alignments(transducer, [best])
    found = alignment.checked()
    if asked.options.out is not None:
        write(asked.options.out, svg(alignment_lattice(transducer, best), found.output.tokens[:-1]))
        return
    print(f"log-probability {found.output.log_prob:.3f}, of this alignment alone {found.log_prob:.3f}")
    print(" ".join(found.path()))
    for token, (first, last) in zip(found.output.tokens, found.frames, strict=False):
        print(f"{first:5}-{last:<5} {token}")


def _show_gradients(asked: Asked) -> None:
    from transduce.wings.looking.inspection.gradients import gradient_reach, plot

    transducer = load(asked.trained)
    if not transducer.conditional and asked.options.target is not None:
        raise UserError(
            f"--target {asked.options.target!r}: a language model has no source, so SOURCE is its text: leave it out"
        )
    if transducer.conditional:
        pair = asked.source, transducer(asked.source) if asked.options.target is None else asked.options.target
    else:
        pair = "", asked.source
    found = gradient_reach(transducer, [pair], 10 if asked.options.distance is None else asked.options.distance)
    if asked.options.out is None:
        print("\n".join(found.lines()))
    elif asked.options.out.suffix == ".json":
        write(asked.options.out, formats.as_json(found.record(), indent=1) + "\n")
    else:
        plot([(asked.trained.run.name, found)], asked.options.out)


def _show_rank(asked: Asked) -> None:
    from transduce.wings.looking.inspection.rank import rank_residuals

    found = rank_residuals(load(asked.trained), asked.source)
    if asked.options.out is None:
        print("\n".join(found.lines()))
    elif asked.options.out.suffix == ".json":
        write(asked.options.out, formats.as_json(dict(found.curves), indent=1) + "\n")
    else:
        found.plot(asked.options.out)


def _show_cells(asked: Asked) -> None:
    from transduce.wings.looking.inspection.cells import trace
    from transduce.wings.looking.inspection.tracking import track
    from transduce.wings.looking.reports.cells import cells_drawing, cells_page

    if asked.options.track is None and asked.options.unit is None:
        raise UserError("--cells shows one unit: add --unit NUMBER, or --track PROPERTY to find one")
    path = Path(asked.source)
    found = trace(load(asked.trained), read_text(path) if path.is_file() else asked.source)
    tracking = None if asked.options.track is None else track(found, asked.options.track)
    unit = asked.options.unit if asked.options.unit is not None or tracking is None else tracking.best
    assert unit is not None
    if asked.options.out is None:
        print("\n".join(found.lines(unit) if tracking is None else tracking.lines(found)))
    elif asked.options.out.suffix == ".json":
        values = {"unit": unit, "text": found.text, "values": found.values_NU[:, unit].tolist()}
        about = {} if tracking is None else {"tracking": tracking.record()}
        write(asked.options.out, formats.as_json(values | about) + "\n")
    elif asked.options.out.suffix == ".html":
        write(asked.options.out, cells_page(found, unit, tracking))
    elif asked.options.out.suffix == ".svg":
        write(asked.options.out, cells_drawing(found, unit))
    else:
        raise UserError(
            f"--out {asked.options.out}: a unit is shown on a page, .html, in a drawing, .svg, or as data, .json"
        )


ATTENTION = "attention"  # what is shown if no option asks for another view
VIEWS = {
    ATTENTION: View("attention", ("--target", "--head", "--out", "--against"), _show_attention),
    "--beam-tree": View("a search", ("--beam", "--pruned", "--out"), _show_beam_tree),
    "--frames": View("an alignment", ("--target", "--beam", "--out"), _show_frames),
    "--units": View("the units of a source and its output", ("--target",), _show_units),
    "--phrases": View("a derivation", ("--pruned", "--out"), _show_phrases),
    "--series": View("a forecast", ("--out",), _show_series),
    "--cells": View("the units of a recurrent model", ("--unit", "--track", "--out"), _show_cells),
    "--rank": View("the rank of states", ("--out",), _show_rank),
    "--gradients": View("how far gradients reach", ("--target", "--distance", "--out"), _show_gradients),
}
