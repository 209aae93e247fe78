"""``transduce export``: a run's model for another engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.options import Plugins


def export(
    run: Annotated[Path, typer.Argument(help="A run directory from `transduce train`.", metavar="RUN")],
    to: Annotated[
        str, typer.Option("--to", help="engine (one file), web (a page), native, onnx, ctranslate2, or marian.")
    ] = "onnx",
    out: Annotated[
        Path | None,
        typer.Option(help="The folder, or the file of --to engine; by default RUN/exports/…", metavar="PATH"),
    ] = None,
    checkpoint: Annotated[str, typer.Option(help="best, last or average.")] = "best",
    sample: Annotated[
        Path | None, typer.Option(help="Sources that both engines decode; by default of the validation split.")
    ] = None,
    precision: Annotated[str, typer.Option(help="float32, or int8: smaller and less exact.")] = "float32",
    single: Annotated[bool, typer.Option("--single", help="With --to web: one page instead of a folder.")] = False,
    shortlist: Annotated[
        bool,
        typer.Option(
            "--shortlist", help="With --to engine or web: search only among the words of `transduce shortlist RUN`."
        ),
    ] = False,
    plugin: Plugins = None,
) -> None:
    """Export a run for another engine, and compare its outputs with PyTorch's.

    In float32 they must be equal.

    \b
    Examples:
      transduce export runs/de-en --to native --precision int8
      transduce export runs/g2p --to engine --out g2p.engine
      transduce export runs/g2p --to web --single --out g2p.html --precision int8
    """
    from transduce.cli import inputs
    from transduce.core.plugins import load_plugins
    from transduce.wings.engines.export.checked_export import export_run

    load_plugins(plugin)
    sources = None if sample is None else list(inputs.lines([sample]))
    folder, parity = export_run(run, to, out, checkpoint, sources, precision, single, shortlist)  # type: ignore[arg-type]
    print(f"{folder}: {parity}")
