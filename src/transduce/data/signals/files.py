"""Checks of a signal's file before it is decoded."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from transduce.data.corpora import DataError, LineError


class SignalError(LineError):
    """A file (``line``, as the user wrote it) cannot be read as the expected signal."""

    def __init__(self, path: str, problem: str) -> None:
        DataError.__init__(self, f"{path} {problem}")
        self.line = path


def regular(path: str) -> Path:
    """The path of a non-empty file. Raises SignalError if there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        raise SignalError(path, "is missing: there is no such file") from None
    except (
        OSError,
        ValueError,
    ) as error:  # the name is too long or has a null character, or a folder is not accessible
        raise SignalError(path, f"cannot be opened: {error}") from error
    if not stat.S_ISREG(found.st_mode):
        raise SignalError(path, "is not a file")
    if found.st_size == 0:
        raise SignalError(path, "is empty: it has no bytes")
    return Path(path)


def lacking(package: str, extra: str) -> DataError:
    """The error for a library that is not installed."""
    return DataError(f"the package {package!r} is not installed: pip install 'transduce[{extra}]'")
