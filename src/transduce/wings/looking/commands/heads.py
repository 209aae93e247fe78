"""``transduce heads``: what the heads of a Transformer do over a corpus, and which ones it can lose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from transduce.cli import formats
from transduce.cli.corpus import CorpusOptions
from transduce.cli.options import RunOptions
from transduce.core.errors import UserError

if TYPE_CHECKING:
    from transduce.answers.transducer import Transducer
    from transduce.core.types import Example
    from transduce.wings.looking.inspection.pruning import Importance
    from transduce.wings.looking.reports.heads import Curve, HeadsReport


@dataclass(frozen=True)
class HeadsOptions:
    """What to measure of the heads, and where to write it."""

    limit: Annotated[int, typer.Option(min=1, help="Examples to use, the first ones.")] = 500
    importance: Annotated[
        bool, typer.Option("--importance", help="Also measure how much each head matters, by two measures.")
    ] = False
    prune: Annotated[
        bool, typer.Option("--prune", help="Also silence more and more heads, least important first, and score that.")
    ] = False
    metric: Annotated[str | None, typer.Option(help="The metric of --prune; by default the run's first.")] = None
    out: Annotated[
        Path | None, typer.Option(help="Write a page (.html), or draw the curve of --prune (.png, .svg, .pdf).")
    ] = None
    save: Annotated[
        Path | None, typer.Option(help="Write a run without the least important heads.", metavar="FOLDER")
    ] = None
    share: Annotated[float, typer.Option(help="With --save: the share of all heads that the new run lacks.")] = 1 / 3
    conllu: Annotated[
        Path | None,
        typer.Option(help="Instead: find heads that follow the syntax in this CoNLL-U file.", metavar="FILE"),
    ] = None
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False

    def __post_init__(self) -> None:
        if self.conllu is not None and (unused := self._unused_with_syntax()):
            raise UserError(
                f"--conllu shows heads that follow the syntax and nothing else, so {', '.join(unused)} would do "
                "nothing: leave it out, or run heads a second time without --conllu"
            )
        if self.metric is not None and not self.prune:
            raise UserError("--metric is for the curve of --prune: add --prune, or leave it out")
        if self.out is not None and not self.page and not self.prune:
            raise UserError(
                f"--out {self.out}: without --prune there is no curve to draw; add it, or write a page, .html"
            )

    def _unused_with_syntax(self) -> list[str]:
        """The given options that --conllu would ignore."""
        given = {
            "--importance": self.importance,
            "--prune": self.prune,
            "--metric": self.metric is not None,
            "--out": self.out is not None,
            "--save": self.save is not None,
        }
        return [option for option, is_given in given.items() if is_given]

    @property
    def page(self) -> bool:
        return self.out is not None and self.out.suffix == ".html"


def heads(trained: RunOptions, corpus: CorpusOptions, asked: HeadsOptions) -> None:
    """Show where each attention head of a Transformer looks.

    A head looks at one relative place, along the diagonal, at the rarest token or at the end. The targets of the corpus
    are forced, and the default split is the run's test split.

    \b
    Examples:
      transduce heads runs/de-en --split valid --out heads.html
    """
    from transduce.wings.looking.inspection.heads import head_roles, lines
    from transduce.wings.looking.inspection.pruning import importances
    from transduce.wings.looking.inspection.unattended import unattended
    from transduce.wings.looking.reports.heads import HeadsReport, heads_page
    from transduce.wings.pages.page import write

    if asked.conllu is not None and (corpus.split is not None or corpus.source is not None or corpus.of_files):
        raise UserError(
            f"--conllu {asked.conllu} names the sentences: leave out --split, --source, --target and --pairs"
        )
    transducer = trained.load()
    if asked.conllu is not None:
        _show_syntax(transducer, asked.conllu, asked)
        return
    examples = corpus.read(transducer, trained.runs[0])[: asked.limit]
    pairs = [(example.source, example.references[0]) for example in examples if example.references]
    found = HeadsReport(str(trained.run), len(pairs), head_roles(transducer, pairs), unattended(transducer, pairs))
    tell = _silent if asked.as_json or asked.page else print
    tell("\n".join([*lines(found.roles), *(found.unattended.lines() if found.unattended else ())]))
    if asked.importance or asked.prune or asked.save is not None:
        found = replace(found, importance=sorted(importances(transducer, pairs), key=lambda each: each.gradient))
        tell("\n".join(["", *_importance_lines(found.importance or ())]))
    if asked.prune:
        found = replace(found, curve=_curve(transducer, examples, found, asked, tell))
    if asked.save is not None:
        _save(trained.run, transducer, found, asked)
    if asked.page and asked.out is not None:
        write(asked.out, heads_page(found))
    if asked.as_json:
        print(formats.as_json(_record(found), indent=1))


def _silent(text: str) -> None:
    """In place of ``print``, if the terminal gets JSON or nothing."""


def _curve(
    transducer: Transducer,
    examples: Sequence[Example],
    found: HeadsReport,
    asked: HeadsOptions,
    tell: Callable[[str], None],
) -> Curve:
    from transduce.metrics.base import metric
    from transduce.wings.looking.inspection.pruning import plot, pruning_curve
    from transduce.wings.looking.reports.heads import Curve

    chosen = metric(asked.metric or transducer.settings["metrics"][0])
    order = [each.head for each in found.importance or ()]

    def told(count: int, score: float) -> None:
        tell(f"{count:4} of {len(order)} heads silenced: {chosen.name} {score:.2f}")

    points = pruning_curve(transducer, examples, chosen, order, told=told)
    if asked.out is not None and not asked.page:
        plot(points, len(order), chosen.name, asked.out)
    return Curve(chosen.name, len(order), points)


def _save(run: Path, transducer: Transducer, found: HeadsReport, asked: HeadsOptions) -> None:
    from transduce.wings.looking.inspection.pruned import first_heads, save_without

    assert asked.save is not None
    order = [each.head for each in found.importance or ()]
    removed = first_heads(order, asked.share)
    save_without(run, transducer, removed, asked.save)
    if not asked.as_json:
        print(f"{asked.save} is a run without {len(removed)} of {len(order)} heads")


def _record(found: HeadsReport) -> dict[str, object]:
    record: dict[str, object] = {"heads": [vars(each) | {"role": each.role} for each in found.roles]}
    if found.unattended is not None:
        record["unattended"] = {"share": found.unattended.share, "tokens": dict(found.unattended.tokens)}
    if found.importance is not None:
        record["importance"] = [vars(each) for each in found.importance]
    if found.curve is not None:
        record["pruned"] = [{"heads": count, found.curve.metric: score} for count, score in found.curve.points]
    return record


def _show_syntax(transducer: Transducer, path: Path, asked: HeadsOptions) -> None:
    from transduce.wings.looking.inspection.syntax import lines_of, read_parsed, syntactic_heads

    found, read = syntactic_heads(transducer, read_parsed(path)[: asked.limit])
    if asked.as_json:
        print(formats.as_json({"sentences": read, "relations": [vars(each) for each in found]}, indent=1))
    else:
        print("\n".join(lines_of(found, read)))


def _importance_lines(found: Sequence[Importance]) -> list[str]:
    width = max(len(each.head[0]) for each in found)
    head = f"{'least important first':{width}} head  gradient  loss alone"
    return [head] + [
        f"{each.head[0]:{width}} {each.head[1]:4}  {each.gradient:8.4f}  {each.alone:+10.4f}" for each in found
    ]
