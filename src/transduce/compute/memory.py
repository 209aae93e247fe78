"""Lets the process keep memory that it has freed."""

from __future__ import annotations

import ctypes
import os

TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3  # the parameters of glibc's mallopt, from malloc.h
MOST = 2**31 - 1  # mallopt takes an int
GROWTH = 2**26  # bytes by which the heap grows at once
SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed_memory() -> bool:
    """Lets the C library keep freed memory for the next request. Returns False if it has no such option.

    Each update of a training frees tensors of megabytes and allocates the same sizes again. By default glibc returns
    such memory to the system, which must clear each page again at its next use. That takes up to 7 % of an update on a
    CPU. The peak of memory stays the same (docs/log.md, 2026-11-25). If the environment sets one of ``SETTINGS``, the
    function is a no-op and returns False.
    """
    if any(name in os.environ for name in SETTINGS):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # musl and macOS have no mallopt; Windows cannot open a library None
        return False
    return all(mallopt(*option) == 1 for option in ((MMAP_THRESHOLD, MOST), (TRIM_THRESHOLD, MOST), (TOP_PAD, GROWTH)))
