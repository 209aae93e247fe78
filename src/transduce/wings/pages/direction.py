"""The direction of writing: from left to right, or from right to left as in Arabic and Hebrew."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable


def from_right(texts: Iterable[str]) -> bool:
    """True if most letters of the texts belong to scripts that are written from right to left.

    Only letters with a direction of their own count: digits, marks and spaces take that of their surroundings.
    """
    kinds = [unicodedata.bidirectional(letter) for text in texts for letter in text]
    return sum(kind in ("R", "AL") for kind in kinds) > kinds.count("L")
