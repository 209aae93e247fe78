"""The exercises of chapter 25."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from book.exercise import Exercise

ROWS = (np.array([0.5, 0.25, 0.25, 0.0]), np.array([1.0, 0.0]), np.full(4, 0.25))


def _entropies(entropy: Callable[[Any], Any]) -> list[float]:
    with np.errstate(all="ignore"):
        return [round(float(np.nan_to_num(entropy(row), nan=-1.0, neginf=-1.0, posinf=-1.0)), 4) + 0.0 for row in ROWS]


def _bits(weights: Any) -> Any:
    kept = weights[weights > 0]
    return -(kept * np.log2(kept)).sum()


EXERCISES = (
    Exercise(
        3,
        (
            (8, "That is the number of positions. Its logarithm to base 2 is the entropy."),
            (0, "0 bits are for one position with all the weight."),
            (2.079, "That is in nats: take the logarithm to base 2."),
        ),
        "log2 of 8.",
    ),
    Exercise(
        10,
        (
            (0, "With a thousand tests, some succeed by chance."),
            (1, "One in a hundred of 1,000."),
            (100, "0.01 of 1,000 is 10."),
        ),
        "A p-value below 0.01 occurs by chance in one of a hundred tests.",
    ),
    Exercise(
        lambda weights: _bits(weights),
        (
            (lambda weights: -(weights * np.log2(weights)).sum(), "0 log 0 is not a number in NumPy: leave zeros out."),
            (lambda weights: _bits(weights) * np.log(2), "That is in nats. Use log2."),
            (lambda weights: -_bits(weights), "Logarithms of probabilities are negative: change the sign."),
        ),
        "Minus the sum of w log2 w, over the weights above 0.",
        _entropies,
    ),
)
