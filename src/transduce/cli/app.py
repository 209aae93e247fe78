"""The entry point of the command line.

Commands import torch inside their functions, and each command is imported when it is called. So ``--help`` is quick.
"""

from __future__ import annotations

import errno
import io
import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from importlib.util import find_spec
from typing import Annotated

import typer

from transduce import __version__
from transduce.cli.commands import Commands, add_commands
from transduce.core.errors import StoppedError, UserError, out_of_memory
from transduce.core.files import FULL
from transduce.core.registry import SERVICES, has, service

REASONS = {
    errno.ENOENT: "there is no such file or folder",
    errno.EEXIST: "a file or folder of this name is there already; choose another name",
    errno.EISDIR: "this is a folder, and a file was expected",
    errno.ENOTDIR: "a part of this path is a file, and a folder was expected",
    errno.EACCES: "you have no permission for this file or folder",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "your share of the disk is full",
    errno.EFBIG: "the file is larger than this disk allows, or this user (ulimit -f)",
    errno.EROFS: "nothing can be written there: the disk is read-only",
    errno.EIO: "the disk cannot be read or written: it may be damaged",
    errno.ENAMETOOLONG: "the name is too long",
}
"""What a failure of the operating system means to the person at the command line."""

app = typer.Typer(
    cls=Commands,
    help="Learn to turn one sequence into another: train on pairs, then predict, evaluate and score.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
add_commands(app)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"transduce {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    """The options before the command's name."""


def main() -> None:
    """Runs the command line. A UserError, OSError, StoppedError, OverflowError or a lack of memory becomes one line on
    standard error and exit status 2.

    Any other error is a bug and keeps its traceback. If the environment variable ``TRANSDUCE_TRACE`` is set, every
    error keeps its traceback.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):  # all text is UTF-8, for every locale
        sys.stdout.reconfigure(encoding="utf-8", errors=sys.stdout.errors)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    threading.excepthook = _ended
    try:
        with service("progress")() if has(SERVICES["progress"]) else nullcontext(), flushed_output():
            app()  # it ends with status 1 if the reader closes the pipe (`| head`)
    except Exception as error:
        expected = isinstance(error, UserError | OSError | StoppedError | OverflowError) or out_of_memory(error)
        expected |= _needs_package(error)
        if not expected or os.environ.get("TRANSDUCE_TRACE"):
            raise
        typer.echo(f"transduce: {described(error)}", err=True)
        sys.exit(2)


def _needs_package(error: Exception) -> bool:
    """True if a library is not installed, such as PyTorch beside the engine in one file, which lacks the parts of this
    package that need it.
    """
    if not isinstance(error, ModuleNotFoundError) or not error.name:
        return False
    return error.name.partition(".")[0] != "transduce" or find_spec("torch") is None


def _ended(ended: threading.ExceptHookArgs) -> None:
    """Keeps the traceback of a thread that ends by a bug. A library's thread that cannot write tells its caller."""
    if not isinstance(ended.exc_value, OSError):
        threading.__excepthook__(ended)


@contextmanager
def flushed_output() -> Iterator[None]:
    """A context that writes all of standard output at its end. It names standard output in the OSError of a full disk:
    each file that the package writes is named already. Nothing more is written then, also not when Python ends.
    """
    try:
        try:
            yield
        finally:
            _flush()
    except OSError as error:
        if error.filename is not None or error.errno not in FULL:
            raise
        with open(os.devnull, "wb") as nowhere, suppress(OSError, ValueError):
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        raise OSError(error.errno, error.strerror, "standard output") from error


def _flush() -> None:
    if sys.stdout is not None and not sys.stdout.closed:
        with suppress(BrokenPipeError):
            sys.stdout.flush()


def described(error: Exception) -> str:
    """The message of an error. An error of the operating system names the file or folder first."""
    if _needs_package(error) and not isinstance(error, UserError):
        name = str(getattr(error, "name", ""))
        return (
            f"{'torch' if name.startswith('transduce.') else name} is not installed, which this needs: "
            "pip install transduce. Without it, predict and serve "
            "answer with a file of `transduce export RUN --to engine`"
        )
    if isinstance(error, OverflowError):
        return f"a number is too large: {error}"
    if out_of_memory(error):
        why = str(error) if isinstance(error, MemoryError) else ""
        return f"the memory is full: {why or 'use smaller batches, a smaller beam, or less data at a time'}"
    if isinstance(error, OSError) and error.errno in REASONS and error.filename is not None:
        return f"{error.filename}: {REASONS[error.errno]}"
    return str(error)
