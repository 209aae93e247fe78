"""How many hypotheses a search keeps in view (``size``), and how many it returns (``nbest``, None: all)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

S = TypeVar("S", bound=Any)  # a dataclass with a size and an nbest


def resized(search: S, size: int | None, nbest: int | None) -> S:
    """The same search of so many: where it is not said as many as before, or as there is room for."""
    if nbest is None:
        nbest = search.nbest if search.nbest is None or size is None else min(search.nbest, size)
    if size is None:
        size = max(search.size, nbest or 1)
    resized: S = replace(search, size=size, nbest=nbest)
    return resized
