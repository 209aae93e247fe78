"""``transduce back-translate``: synthetic training pairs from targets that have no sources."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli import inputs
from transduce.cli.options import BatchSize, BeamSize, RunOptions
from transduce.cli.unanswered import Unanswered
from transduce.core.errors import UserError


def back_translate(
    trained: RunOptions,
    files: Annotated[
        list[Path] | None, typer.Argument(help="Text files, a target a line; standard input if none.")
    ] = None,
    beam: BeamSize = None,
    noise: Annotated[
        bool, typer.Option("--noise", help="Remove, replace and move some words of each synthetic source.")
    ] = False,
    tag: Annotated[str, typer.Option(help="A word before each synthetic source; none by default.")] = "",
    pairs: Annotated[
        Path | None, typer.Option(help="Real pairs, source and target with a tab, to write first.", metavar="FILE.tsv")
    ] = None,
    weight: Annotated[int | None, typer.Option(min=1, help="How often to write each real pair; 1 by default.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another seed gives other noise.")] = 1,
    out: Annotated[Path | None, typer.Option("--out", help="Write to this file.", metavar="FILE.tsv")] = None,
    batch_size: BatchSize = 64,
) -> None:
    """Write synthetic training pairs, by translating targets into sources.

    RUN is a model of the opposite direction: it reads targets and writes sources. --set search.type=sampling draws the
    sources instead of searching for the best. Train on the file with `transduce train RECIPE --set
    data.train.path=FILE.tsv`.

    \b
    Examples:
      transduce back-translate runs/en-de english.txt --tag back > pairs.tsv
    """
    from transduce.answers.answer import with_warnings
    from transduce.core.files import write_lines
    from transduce.metrics.units import one_line
    from transduce.wings.lab.back_translation import WordNoise, back_translated, mixed, noised, tagged

    if weight is not None and pairs is None:
        raise UserError(f"--weight {weight} is for real pairs, and none are given: give --pairs FILE.tsv")
    reverse = trained.load(beam)
    if not reverse.conditional:
        raise UserError("the model is a language model, and writes no sources: give a model that reads targets")
    real = [] if pairs is None else [*inputs.pairs([pairs], longest=inputs.longest_line(reverse))]
    unanswered, lines = Unanswered(), inputs.sources(files, reverse)
    synthetic = back_translated(reverse, lines, batch_size, lambda found: unanswered.counted(with_warnings(found)))
    if noise:
        synthetic = noised(synthetic, WordNoise(seed=seed))
    if tag:
        synthetic = tagged(synthetic, tag)
    rows = (f"{one_line(source)}\t{one_line(target)}" for source, target in mixed(real, synthetic, weight or 1))
    if out is not None:
        write_lines(out, rows)
    else:
        for row in rows:
            print(row, flush=batch_size == 1)
    unanswered.end()
