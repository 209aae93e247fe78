"""Which parameters of a test run in the fast suite; ``scripts/test --full`` runs all of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def mostly_slow(values: Iterable[Any], fast: Collection[Any]) -> list[Any]:
    """Returns all ``values`` as parameters of a test or fixture. Marks those that are not in ``fast`` as slow.

    A tuple holds the values of several arguments. Raises ValueError if a value of ``fast`` is not one of ``values``: a
    renamed family must not leave the fast suite unnoticed.
    """
    values = list(values)
    if unknown := [value for value in fast if value not in values]:
        raise ValueError(f"fast = {unknown}: no such parameters; known are {values}")
    rows = [value if isinstance(value, tuple) else (value,) for value in values]
    marks = [() if value in fast else pytest.mark.slow for value in values]
    return [pytest.param(*row, marks=mark) for row, mark in zip(rows, marks, strict=True)]
