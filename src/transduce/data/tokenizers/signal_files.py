"""The protocol of units that read files, and checks of a file before it is decoded."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from transduce.data.corpora import DataError, LineError
from transduce.data.tokenizers.base import Unit

Steps = NDArray[np.float32]


class Signal(Unit, Protocol):
    """A unit that reads files.

    ``read`` returns the steps [S, channels * size] of a file, at least one. It raises SignalError if the file cannot be
    read, and DataError if a library is not installed. The numbers of one channel are adjacent in a step. ``place`` is
    the name of a step, counted from 0, for people. If ``spectral``, the numbers of a step are frequency bands, lowest
    first; otherwise they are pixels. If ``bands``, they are the energies of such bands and nothing else, so that
    neighbours may be mixed. ``normalisation`` is "none", "corpus" (mean and standard deviation of each channel over the
    training set), or any other word for the mean and standard deviation of the file itself.
    """

    @property
    def normalisation(self) -> str: ...

    @property
    def channels(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def spectral(self) -> bool: ...

    @property
    def bands(self) -> bool: ...

    def read(self, path: str) -> Steps: ...

    def place(self, step: int) -> str: ...


class SignalError(LineError):
    """A file cannot be read as the signal that its unit expects. ``line`` is the path that was read. It may be one
    picture in a clip's folder.
    """

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem, shown=path)


def regular(path: str) -> Path:
    """``path`` as a Path. Raises SignalError if there is no such file, if it cannot be accessed, if it is empty, or if
    it is a folder, a pipe or a device.
    """
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
    """Returns (does not raise) the DataError for a library that is not installed. It names the extra to install."""
    return DataError(f"the package {package!r} is not installed: pip install 'transduce[{extra}]'")
