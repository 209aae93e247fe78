"""``transduce heads``: what the heads of a Transformer do over a corpus, and which ones it can lose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from transduce.cli import formats
from transduce.cli.corpus import CorpusOptions
from transduce.cli.options import RunOptions
from transduce.errors import UserError

if TYPE_CHECKING:
    from transduce.inspect.pruning import Importance
    from transduce.transducer import Transducer


def heads(
    trained: RunOptions,
    corpus: CorpusOptions,
    limit: Annotated[int, typer.Option(min=1, help="Examples to use, the first ones.")] = 500,
    importance: Annotated[
        bool, typer.Option("--importance", help="Also measure how much each head matters, by two measures.")
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Also silence more and more heads, least important first, and score that.")
    ] = False,
    metric: Annotated[str | None, typer.Option(help="The metric of --prune; by default the run's first.")] = None,
    out: Annotated[Path | None, typer.Option(help="Draw the curve of --prune (.png, .svg, .pdf).")] = None,
    save: Annotated[
        Path | None, typer.Option(help="Write a run without the least important heads.", metavar="FOLDER")
    ] = None,
    conllu: Annotated[
        Path | None,
        typer.Option(help="Instead: find heads that follow the syntax in this CoNLL-U file.", metavar="FILE"),
    ] = None,
    share: Annotated[float, typer.Option(help="With --save: the share of all heads that the new run lacks.")] = 1 / 3,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """Show where each attention head of a Transformer looks: at one relative place, along the diagonal, at the rarest
    token or at the end. The targets of the corpus are forced, and the default split is the run's test split."""
    from transduce.inspect.heads import head_roles, lines
    from transduce.inspect.pruned import first_heads, save_without
    from transduce.inspect.pruning import importances, plot, pruning_curve
    from transduce.metrics.base import metric as metric_of

    if (out is not None or metric is not None) and not prune:
        raise UserError("--out and --metric are for the curve of --prune: add --prune, or leave them out")
    transducer = trained.load()
    if conllu is not None:
        _show_syntax(transducer, conllu, limit, as_json)
        return
    examples = corpus.read(transducer, trained.runs[0])[:limit]
    pairs = [(example.source, example.references[0]) for example in examples if example.references]
    roles = head_roles(transducer, pairs)
    record: dict[str, Any] = {"heads": [vars(each) | {"role": each.role} for each in roles]}
    if not as_json:
        print("\n".join(lines(roles)))
    if importance or prune or save is not None:
        found = sorted(importances(transducer, pairs), key=lambda each: each.gradient)
        record["importance"] = [vars(each) for each in found]
        if not as_json:
            print("\n".join(["", *_importance_lines(found)]))
    if prune:
        chosen = metric_of(metric or transducer.settings["metrics"][0])

        def told(count: int, score: float) -> None:
            if not as_json:
                print(f"{count:4} of {len(found)} heads silenced: {chosen.name} {score:.2f}", flush=True)

        curve = pruning_curve(transducer, examples, chosen, [each.head for each in found], told=told)
        record["pruned"] = [{"heads": count, chosen.name: score} for count, score in curve]
        if out is not None:
            plot(curve, len(found), chosen.name, out)
    if save is not None:
        removed = first_heads([each.head for each in found], share)
        save_without(trained.run, transducer, removed, save)
        record["saved"] = {"run": str(save), "heads": len(removed)}
        if not as_json:
            print(f"\n{save} is a run without {len(removed)} of {len(found)} heads")
    if as_json:
        print(formats.as_json(record, indent=1))


def _show_syntax(transducer: Transducer, path: Path, limit: int, as_json: bool) -> None:
    from transduce.inspect.syntax import lines_of, read_parsed, syntactic_heads

    found, read = syntactic_heads(transducer, read_parsed(path)[:limit])
    if as_json:
        print(formats.as_json({"sentences": read, "relations": [vars(each) for each in found]}, indent=1))
    else:
        print("\n".join(lines_of(found, read)))


def _importance_lines(found: list[Importance]) -> list[str]:
    width = max(len(each.head[0]) for each in found)
    head = f"{'least important first':{width}} head  gradient  loss alone"
    return [head] + [
        f"{each.head[0]:{width}} {each.head[1]:4}  {each.gradient:8.4f}  {each.alone:+10.4f}" for each in found
    ]
