"""The exercises of chapter 17."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from book.exercise import Exercise

START, STEP = np.array([0.8, 0.2]), np.array([[0.7, 0.3], [0.4, 0.6]])
EMISSION = np.array([[0.2, 0.4, 0.4], [0.5, 0.4, 0.1]])


def _probabilities(probability: Callable[..., Any]) -> list[float]:
    return [round(float(probability(START, STEP, EMISSION, each)), 5) for each in ([2, 0, 2], [1], [0, 1, 1, 2])]


def _forward(start: Any, step: Any, emission: Any, seen: list[int], best: bool = False, last: bool = False) -> Any:
    alpha = start * emission[:, seen[0]]
    for symbol in seen[1:]:
        ways = alpha[:, None] * step
        alpha = (ways.max(0) if best else ways.sum(0)) * emission[:, symbol]
    return alpha.max() if best or last else alpha.sum()


EXERCISES = (
    Exercise(
        0.0464,
        (
            (0.0448, "That is the maximum: it leaves out the way from cold."),
            (0.232, "The emission of day 2 is missing: hot eats one ice cream with probability 0.2."),
            (0.0092, "The sum needs both ways, and each the state before it: 0.32 and 0.02."),
        ),
        "(0.32 * 0.7 + 0.02 * 0.4) times the emission.",
    ),
    Exercise(
        5**10,
        (
            (50, "Each of the ten steps chooses among five: they multiply."),
            (10**5, "Turned round: five choices at each of ten steps."),
            (250, "25 transitions times 10 is the *work* of Viterbi. The number of paths is much larger."),
        ),
        "Five choices, ten times.",
    ),
    Exercise(
        lambda start, step, emission, seen: _forward(start, step, emission, seen),
        (
            (
                lambda start, step, emission, seen: _forward(start, step, emission, seen, best=True),
                "That is the best path: add up the ways into a state.",
            ),
            (
                lambda start, step, emission, seen: _forward(start, step.T, emission, seen),
                "The table is transposed: step[i, j] leads from i to j.",
            ),
            (
                lambda start, step, emission, seen: _forward(start, step, emission, seen, last=True),
                "Any state may be the last: add them all up at the end.",
            ),
        ),
        "alpha = start * emission of the first symbol; then (alpha @ step) * emission, again and again.",
        _probabilities,
    ),
)
