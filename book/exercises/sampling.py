"""The exercises of chapter 13."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from book.exercise import Exercise

P = np.array([0.6, 0.3, 0.1])


def _cooled(cool: Callable[..., Any]) -> list[list[float]]:
    return [np.round(np.asarray(cool(P.copy(), temperature)), 4).tolist() for temperature in (0.5, 1.0, 4.0)]


EXERCISES = (
    Exercise(
        3,
        (
            (2, "0.4 + 0.3 is 0.7, less than 0.8: the set must reach p."),
            (4, "Three symbols already have 0.85. The nucleus is the smallest set."),
            (1, "The set must sum to at least 0.8."),
        ),
        "Add up from the most probable on, until the sum is at least 0.8.",
    ),
    Exercise(
        0.4 / 0.85,
        (
            (0.4, "What was cut off is given to the rest: divide by the sum of what stays."),
            (0.5, "0.4 / 0.8: divide by the sum that is kept, which is 0.85, not by p."),
            (1 / 3, "The kept symbols keep their proportions."),
        ),
        "Divide by the sum of the symbols that stay.",
    ),
    Exercise(
        lambda p, temperature: p ** (1 / temperature) / (p ** (1 / temperature)).sum(),
        (
            (
                lambda p, temperature: p**temperature / (p**temperature).sum(),
                "Upside down: a low temperature must sharpen.",
            ),
            (lambda p, temperature: p ** (1 / temperature), "The result must sum to 1."),
            (
                lambda p, temperature: p / temperature,
                "The temperature divides logits, which are logarithms: it is a power of p.",
            ),
        ),
        "Divide the logarithms by the temperature, and take a softmax.",
        _cooled,
    ),
)
