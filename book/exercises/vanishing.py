"""The exercises of chapter 3."""

from __future__ import annotations

import math

from book.exercise import Exercise

EXERCISES = (
    Exercise(
        0.8**10,
        (
            (8.0, "Factors are multiplied, not added."),
            (0.8**9, "Ten steps are ten factors."),
            (1 - 0.8**10, "That is what is lost. The question is what is left."),
        ),
        "Multiply ten factors of 0.8.",
    ),
    Exercise(
        math.log(0.5) / math.log(0.8),
        (
            (
                2.5,
                "2.5 would be right if each step took away a fifth of the *first* value. It takes a fifth of the rest.",
            ),
            (math.log(0.8) / math.log(0.5), "Upside down: the half is reached after log(0.5) / log(0.8) steps."),
            (5, "5 steps are 1 / (1 - 0.8): then 1/e is left, roughly, not 1/2."),
        ),
        "Solve 0.8 to the power of k = 0.5 by logarithms.",
    ),
    Exercise(
        0.5,
        (
            (2, "That is the weight. The derivative of the activation multiplies it."),
            (0.25, "That is the derivative alone. The weight multiplies it."),
            (1.0, "The derivative of the sigmoid at 0 is 1/4, not its value 1/2."),
        ),
        "The factor is the weight times the derivative of the sigmoid, at most 1/4.",
    ),
)
