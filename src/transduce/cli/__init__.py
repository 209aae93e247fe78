"""The command line. Torch and all that needs it are imported inside the commands: ``--help`` answers at once."""

from __future__ import annotations

import logging
import os
import sys

import typer

from transduce.cli.commands import app
from transduce.cli.sweep import sweep

__all__ = ["app", "main"]

app.command()(sweep)


def main() -> None:
    """The entry point: mistakes of input are told in a line, with status 2; the rest are bugs and keep their trace."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        app()  # which lets a reader that went away (`| head`) pass, with status 1
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        if os.environ.get("TRANSDUCE_TRACE"):
            raise
        typer.echo(f"transduce: {error}", err=True)
        sys.exit(2)
