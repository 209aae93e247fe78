"""Files of several NumPy arrays (.npz), which may come from a stranger."""

from __future__ import annotations

import os
import zipfile
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transduce.core.errors import DataError

GIB = 2**30


def read_npz(path: Path) -> dict[str, NDArray[np.generic]]:
    """The arrays of a file by name, without running anything in it.

    Raises DataError for a file that is damaged or of another kind, that holds Python objects, or that is larger than
    the memory of this machine when it is unpacked: a small file can unpack to any size.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(each.file_size for each in archive.infolist())
        if size <= memory:
            with np.load(path, allow_pickle=False) as found:
                return dict(found)
    # RuntimeError: encrypted, or packed in an unknown way
    except (OSError, ValueError, EOFError, RuntimeError, MemoryError, zlib.error, zipfile.BadZipFile) as error:
        why = str(error) or "its arrays do not fit into memory"
        raise DataError(f"{path} is not an .npz file that can be read: {why}") from error
    raise DataError(
        f"{path} unpacks to {size / GIB:,.1f} GiB, and this machine has {memory / GIB:,.1f} GiB: divide it, or do not "
        "trust it"
    )
