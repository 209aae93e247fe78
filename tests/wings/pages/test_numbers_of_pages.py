"""Probabilities on pages are written as people read them."""

from __future__ import annotations

import pytest

from transduce.wings.pages.numbers import chance, percent


@pytest.mark.parametrize(
    ("p", "expected"),
    [
        (0.2334, "23.3 %"),
        (0.0005, "0.1 %"),
        (0.0004, "less than 0.1 %"),
        (0.9996, "more than 99.9 %"),
        (0, "0.0 %"),
        (1, "100.0 %"),
    ],
)
def test_percent(p: float, expected: str) -> None:
    assert percent(p) == expected


@pytest.mark.parametrize(
    ("p", "expected"),
    [(0.0085, "0.9 %"), (2e-4, "1 in 5,000"), (7e-9, "1 in 140,000,000"), (1e-12, "less than 1 in a billion")],
)
def test_chance(p: float, expected: str) -> None:
    assert chance(p) == expected
