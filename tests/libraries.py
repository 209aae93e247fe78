"""The variants of the compiled library that tests can use."""

from __future__ import annotations

from typing import Any

import pytest

from transduce.compute import library

BUILT = library.built()
needs_library = pytest.mark.skipif(not BUILT, reason="no C++ compiler was found when transduce was installed")


def usable() -> list[Any]:
    """The functions of each variant that was built and that this processor runs."""
    best = library.open_library(BUILT["_portable"]).transduce_processor()
    return [library.open_library(BUILT[name]) for name in library.VARIANTS[: best + 1] if name in BUILT]
