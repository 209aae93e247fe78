"""Turns a panic of the library ``tokenizers`` into an error.

The library's Rust code panics if a regular expression needs too many steps. It prints a backtrace for each panic.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import IO

from transduce.data.corpora import DataError

STANDARD_ERROR = 2  # the file descriptor, to which the library writes past Python's sys.stderr


@contextmanager
def panics_as_errors(silent: bool) -> Iterator[None]:
    """A context that raises DataError if the library panics inside it.

    If ``silent`` is True, the library's own message does not appear. All output to standard error, of other threads
    too, then waits in a file until the context ends, and is lost after a panic.
    """
    with _held_back() if silent else nullcontext() as held:
        try:
            yield
        except BaseException as error:
            # The class of a panic cannot be imported, and is no Exception.
            if type(error).__name__ != "PanicException":
                raise
            if held is not None:
                held.truncate(0)
            raise DataError(
                f"this tokenizer cannot cut the text: {error}; its file has a regular expression that needs too many "
                "steps, so learn the vocabulary anew"
            ) from None


@contextmanager
def _held_back() -> Iterator[IO[bytes]]:
    """A context that sends all output to standard error, of this process and of the library, into a temporary file.

    It yields the file. At the end, what the file then has is written to standard error: truncate it to drop the output.
    If standard error is closed, nothing is redirected, and the file stays empty.
    """
    if sys.stderr is not None:
        sys.stderr.flush()
    with tempfile.TemporaryFile() as held:
        try:
            original = os.dup(STANDARD_ERROR)
        except OSError:  # it is closed, so there is nothing to silence
            yield held
            return
        os.dup2(held.fileno(), STANDARD_ERROR)
        try:
            yield held
        finally:
            os.dup2(original, STANDARD_ERROR)
            os.close(original)
            held.seek(0)
            if text := held.read():
                os.write(STANDARD_ERROR, text)


def expressions(record: object) -> set[str]:
    """All regular expressions in the JSON of a tokenizer of the library, at any depth."""
    if isinstance(record, dict):
        own = {record["Regex"]} if isinstance(record.get("Regex"), str) else set()
        return own.union(*map(expressions, record.values()))
    return set().union(*map(expressions, record)) if isinstance(record, list) else set()
