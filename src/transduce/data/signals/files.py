"""What can be wrong with the file of a signal before anybody looks inside."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from transduce.data.corpora import DataError, LineError


class SignalError(LineError):
    """The file at a path (``line``, as it was given) cannot be read as the signal that it should be."""

    def __init__(self, path: str, problem: str) -> None:
        DataError.__init__(self, f"{path} {problem}")
        self.line = path


def regular(path: str) -> Path:
    """The path of a file with something in it; SignalError where there is none such."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        raise SignalError(path, "is missing: there is no such file") from None
    except (OSError, ValueError) as error:  # a name too long, a null character in it, a folder nobody may enter
        raise SignalError(path, f"cannot be opened: {error}") from error
    if not stat.S_ISREG(found.st_mode):
        raise SignalError(path, "is not a file")
    if found.st_size == 0:
        raise SignalError(path, "is empty: it has no bytes")
    return Path(path)


def lacking(package: str, extra: str) -> DataError:
    """Of a library that is not installed: no fault of any file."""
    return DataError(f"the package {package!r} is not installed: pip install 'transduce[{extra}]'")
