"""``transduce ngram``: convert and prune n-gram language models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.options import Plugins
from transduce.core.errors import UserError


def ngram(
    source: Annotated[Path, typer.Argument(help="A run of an n-gram model, or an ARPA file.", metavar="RUN|FILE")],
    out: Annotated[
        Path | None,
        typer.Option(help="Write an ARPA file (NAME.arpa or NAME.arpa.gz), or else a run directory.", metavar="OUT"),
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(help="With an ARPA file: the run whose target vocabulary the model gets.", metavar="RUN"),
    ] = None,
    prune: Annotated[
        float, typer.Option(help="Remove n-grams without which the perplexity rises by a smaller share: 1e-8.")
    ] = 0.0,
    checkpoint: Annotated[str, typer.Option(help="Of a run: best or last.")] = "best",
    plugin: Plugins = None,
) -> None:
    """Convert an n-gram language model between a run and an ARPA file, prune it, or count its n-grams.

    \b
    Examples:
      transduce ngram runs/ptb-ngram --out ptb.arpa.gz
    """
    from transduce.core.plugins import load_plugins
    from transduce.wings.counted.ngram_run import NgramModel

    load_plugins(plugin)
    if source.is_dir():
        if like is not None:
            raise UserError(f"--like gives an ARPA file a vocabulary, and {source} is a run with its own: leave it out")
        model = NgramModel.from_run(source, checkpoint)  # type: ignore[arg-type]
    else:
        model = NgramModel.from_arpa(source, like)
    if prune:
        model = model.pruned(prune)
    print("\n".join(model.summary()))
    if out is not None:
        write = model.write_arpa if out.name.endswith((".arpa", ".arpa.gz")) else model.write_run
        write(out)
        print(out)
