"""The exercises of chapter 16."""

from __future__ import annotations

import math

from book.exercise import Exercise

EXERCISES = (
    Exercise(
        1 / 3,
        (
            (1.0, "All three are in the reference, but it has *the* only once: counts are clipped."),
            (0.5, "That is a recall: divide by the words of the output."),
            (2 / 3, "The reference has *the* once."),
        ),
        "Clip each count by the reference's, then divide by the number of output words.",
    ),
    Exercise(
        math.exp(1 - 20 / 18),
        (
            (0.9, "18 / 20 is the ratio. The penalty is exp(1 - r / c)."),
            (math.exp(1 - 18 / 20), "Upside down: r is the reference's length, c the output's."),
            (1.0, "A shorter output has a penalty below 1."),
        ),
        "exp(1 - 20 / 18).",
    ),
    Exercise(
        [0.03, 0.06, 0.06],
        (
            (
                [0.03, 0.12, 0.09],
                "That is Bonferroni: all times 3. Holm multiplies the smallest by 3, the next by 2, the last by 1.",
            ),
            (
                [0.03, 0.04, 0.06],
                "Adjusted values must not fall: 0.04 becomes 0.06, because 0.03 * 2 = 0.06 came before it.",
            ),
            ([0.01, 0.04, 0.03], "Unchanged. With three tests, one of them is small by chance more often."),
        ),
        "Sort; multiply by 3, 2, 1; let no value be below the one before it; give them back in the first order.",
    ),
)
