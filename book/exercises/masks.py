"""The exercises of chapter 7."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from book.exercise import Exercise

ROWS, LENGTHS = np.array([[1.0, 2.0, 3.0], [4.0, 9.0, 9.0], [5.0, 7.0, 9.0]]), np.array([3, 1, 2])


def _means(mean: Callable[..., Any]) -> list[float]:
    found: list[float] = np.round(np.asarray(mean(ROWS.copy(), LENGTHS)), 4).tolist()
    return found


def _mask(rows: Any, lengths: Any) -> Any:
    return np.arange(rows.shape[1]) < lengths[:, None]


EXERCISES = (
    Exercise(
        7,
        (
            (23, "Those are the real tokens."),
            (30, "That is the whole rectangle. Padding is what is not real."),
            (10, "That is the length of the longest row."),
        ),
        "The rectangle has 3 rows of 10 places; take the real tokens away.",
    ),
    Exercise(
        21,
        (
            (36, "That is without a mask."),
            (15, "A token may look at itself: the diagonal counts."),
            (18, "Half of 36 leaves out half of the diagonal."),
        ),
        "Token t sees t tokens: 1 + 2 + ... + 6.",
    ),
    Exercise(
        lambda rows, lengths: (rows * _mask(rows, lengths)).sum(1) / lengths,
        (
            (lambda rows, lengths: rows.mean(1), "That counts padding. What stands in padding has no meaning."),
            (
                lambda rows, lengths: (rows * _mask(rows, lengths)).sum(1) / rows.shape[1],
                "Divide by the number of real places of each row, not by the width.",
            ),
            (lambda rows, lengths: rows.sum(1) / lengths, "Padding is not always 0: set it to 0 by the mask first."),
        ),
        "Make a mask from the lengths, add up what is real, and divide by the lengths.",
        _means,
    ),
)
