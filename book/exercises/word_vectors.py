"""The exercises of chapter 23."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from book.exercise import Exercise

A, B, C = np.array([1.0, 0.0]), np.array([0.5, 2.0]), np.array([3.0, 1.0])


def _vector(analogy: Callable[..., Any]) -> list[float]:
    found: list[float] = np.asarray(analogy(A, B, C)).tolist()
    return found


EXERCISES = (
    Exercise(
        0.8,
        (
            (4, "That is the product. Divide by both lengths."),
            (4 / 5**0.5, "Divide by *both* lengths: the root of 5, twice."),
            (1.0, "They point into different directions."),
        ),
        "The product is 4, and each vector has the length of the root of 5.",
    ),
    Exercise(
        0.8,
        (
            (0.4, "Lengths are not subtracted: the two parts are orthogonal."),
            (0.64, "That is the square."),
            (1.0, "It gets shorter: the package divides by its length afterwards."),
        ),
        "The squares of the two components add up to 1.",
    ),
    Exercise(
        lambda a, b, c: b - a + c,
        (
            (lambda a, b, c: a - b + c, "Turned round: go from a to b, and then the same way from c."),
            (lambda a, b, c: a + b - c, "c must be added: the way from a to b begins there."),
            (lambda a, b, c: b - a, "That is the way. Begin at c."),
        ),
        "c plus the way from a to b.",
        _vector,
    ),
)
