"""The memory of a process: lets it keep what it has freed, and refuses what no machine has."""

from __future__ import annotations

import ctypes
import os

import torch

from transduce.core.errors import UserError

TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3  # the parameters of glibc's mallopt, from malloc.h
MOST = 2**31 - 1  # mallopt takes an int
GROWTH = 2**26  # bytes by which the heap grows at once
SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed_memory() -> bool:
    """Lets the C library keep freed memory for the next request. Returns False if it has no such option.

    Each update of a training, and each step of a search, frees tensors of megabytes and allocates the same sizes again.
    By default glibc returns such memory to the system, which must clear each page again at its next use. On a CPU that
    takes up to 7 % of an update and 10 % of a search. The peak of memory stays the same in training, and grows by about
    100 MB in a search (docs/log.md, 2026-11-25 and 2026-11-29). If the environment sets one of ``SETTINGS``, the
    function is a no-op and returns False.
    """
    if any(name in os.environ for name in SETTINGS):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # musl and macOS have no mallopt; Windows cannot open a library None
        return False
    return all(mallopt(*option) == 1 for option in ((MMAP_THRESHOLD, MOST), (TRIM_THRESHOLD, MOST), (TOP_PAD, GROWTH)))


def check_memory(needed: int, setting: str, device: torch.device) -> None:
    """Raises UserError if ``needed`` bytes are more than the total memory of the device (on the CPU: of the machine).

    ``setting`` is text for the message, such as "size = 100".
    """
    if device.type == "cuda":
        memory = torch.cuda.get_device_properties(device).total_memory
    else:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > memory:
        raise UserError(
            f"{setting}: a step of this search needs at least {needed / 2**30:,.1f} GiB for one batch, and there are "
            f"{memory / 2**30:,.1f} GiB: choose a smaller number, or a smaller batch"
        )
