"""The exercises of chapter 2."""

from __future__ import annotations

from collections.abc import Callable

from book.exercise import Exercise

CASES = ((0.0, 0.5, -0.2), (1.0, 0.5, -0.2), (0.25, 0.8, 0.4))


def _states(gru: Callable[..., float]) -> list[float]:
    return [round(float(gru(*case)), 4) for case in CASES]


EXERCISES = (
    Exercise(
        0.6,
        (
            (1.0, "That adds the whole memory. The forget gate halves it first."),
            (0.9, "The gates belong to other terms: forget multiplies c, input multiplies g."),
            (0.5, "Both terms were halved. The input gate is 1, so g is added unchanged."),
        ),
        "c' = f c + i g.",
    ),
    Exercise(
        4 * (64 * 32 + 64 * 64 + 64),
        (
            (64 * 32 + 64 * 64 + 64, "That is one of the four formulas: three gates and the candidate."),
            (4 * (64 * 32 + 64 * 64), "Each formula has 64 biases, too."),
            (3 * (64 * 32 + 64 * 64 + 64), "That is a GRU. An LSTM has three gates and a candidate: four formulas."),
        ),
        "Each formula has a matrix for the input, a matrix for the state, and biases.",
    ),
    Exercise(
        lambda z, n, h: z * h + (1 - z) * n,
        (
            (
                lambda z, n, h: (1 - z) * h + z * n,
                "Exchanged: in the package, z = 1 keeps the old state. Papers differ.",
            ),
            (lambda z, n, h: z * h + n, "The candidate needs the weight 1 - z: what comes in is what goes out."),
            (lambda z, n, h: z * n, "The old state is missing."),
        ),
        "The new state is a weighted mean of h and n.",
        _states,
    ),
)
