"""The exercises of chapter 8."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from book.exercise import Exercise

VECTORS = (np.array([1.0, -2.0, 0.0, 1.5]), np.array([0.5, -1.0]))


def _units(glu: Callable[[Any], Any]) -> list[list[float]]:
    return [np.round(np.atleast_1d(glu(each)), 4).tolist() for each in VECTORS]


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _halves(x: Any) -> Any:
    return np.split(x, 2)


EXERCISES = (
    Exercise(
        25,
        (
            (30, "6 * 5 counts positions twice: the windows of two layers overlap."),
            (24, "The position itself is seen, too: add 1."),
            (5, "That is one layer."),
        ),
        "Each layer adds k - 1 positions to the one at the bottom.",
    ),
    Exercise(
        12,
        (
            (8, "25 / 3 forgets that the windows overlap."),
            (25, "Each layer adds two positions, not one."),
            (13, "Take 1 from 25 before you divide by 2."),
        ),
        "Solve 1 + L (3 - 1) = 25.",
    ),
    Exercise(
        lambda x: _halves(x)[0] * _sigmoid(_halves(x)[1]),
        (
            (lambda x: _halves(x)[1] * _sigmoid(_halves(x)[0]), "Exchanged: the second half are the gates."),
            (lambda x: _halves(x)[0] * _halves(x)[1], "A gate is between 0 and 1: take its sigmoid."),
            (
                lambda x: np.tanh(_halves(x)[0]) * _sigmoid(_halves(x)[1]),
                "The value has no tanh: the unit is linear in it.",
            ),
        ),
        "Split in two halves; multiply the first by the sigmoid of the second.",
        _units,
    ),
)
