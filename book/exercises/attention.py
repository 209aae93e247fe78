"""The exercises of chapter 5."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from book.exercise import Exercise

_RNG = np.random.default_rng(5)
Q, K, V = _RNG.normal(size=4), _RNG.normal(size=(3, 4)), _RNG.normal(size=(3, 2))


def _attended(attend: Callable[..., Any]) -> list[float]:
    found: list[float] = np.round(np.asarray(attend(Q, K, V)), 4).tolist()
    return found


def _weights(energies: Any) -> Any:
    return np.exp(energies) / np.exp(energies).sum()


EXERCISES = (
    Exercise(
        0.665,
        (
            (0.667, "2 / 3 is a share of the sum of the energies. The softmax takes exponentials first."),
            (2.0, "That is the energy. The weights sum to 1."),
            (0.245, "That is the weight of the energy 1."),
        ),
        "exp(2) divided by exp(2) + exp(1) + exp(0).",
    ),
    Exercise(
        0.881,
        (
            (1.0, "Without the scale the softmax is 1 up to 1e-7. Divide by the root of the width first."),
            (0.562, "Divided by 64. The scale is the root of the width, 8."),
            (0.538, "112 / (112 + 96) has no exponentials."),
        ),
        "Divide both scores by 8, then take the softmax.",
    ),
    Exercise(
        lambda q, keys, values: _weights(keys @ q / len(q) ** 0.5) @ values,
        (
            (
                lambda q, keys, values: _weights(keys @ q) @ values,
                "The scale is missing: divide by the root of the width.",
            ),
            (
                lambda q, keys, values: _weights(keys @ q / len(q)) @ values,
                "Divide by the root of the width, not by the width.",
            ),
            (
                lambda q, keys, values: _weights(keys @ q / len(q) ** 0.5),
                "Those are the weights. Average the values by them.",
            ),
        ),
        "Three steps: products with the keys, a softmax, a weighted mean of the values.",
        _attended,
    ),
)
