"""The chapter that runs: its name, its form, and the same random numbers each time."""

from __future__ import annotations

import os
import random
import warnings
from pathlib import Path

FOLDER = Path(__file__).parent
FORM = "TRANSDUCE_BOOK"  # "short" in builds of the site; not set in Jupyter

name = ""


def begin(chapter: str) -> bool:
    """Begins a chapter. Returns True in its short form, which builds of the site run.

    The short form makes each warning an error, as the tests do.
    """
    global name
    name = chapter
    import numpy
    import torch

    random.seed(1)
    numpy.random.seed(1)
    torch.manual_seed(1)
    if is_build():
        torch.set_num_threads(1)
        warnings.simplefilter("error")
        for each in (DeprecationWarning, PendingDeprecationWarning):  # of the kernel, when it ends
            warnings.filterwarnings("ignore", category=each)
    return is_build()


def is_build() -> bool:
    return os.environ.get(FORM) == "short"


def chapters() -> list[str]:
    """The names of the chapters, in their order."""
    return sorted(path.stem for path in FOLDER.glob("[0-9][0-9]-*.md"))
