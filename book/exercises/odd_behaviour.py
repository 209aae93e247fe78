"""The exercises of chapter 26."""

from __future__ import annotations

from book.exercise import Exercise

EXERCISES = (
    Exercise(
        16.22,
        (
            (6.0, "That is the share itself."),
            (
                12.6,
                "p + 1.96 times the root of p (1 - p) / n is the simple interval. It is wrong for small shares: its lower end is negative.",
            ),
            (2.06, "That is the lower end."),
        ),
        "Put p = 0.06, n = 50 and z = 1.96 into the formula, with the plus sign.",
    ),
    Exercise(
        16.11,
        (
            (0.0, "None of 20 does not mean never."),
            (13.9, "That solves (1 - p) to the power of 20 = 0.05, a one-sided bound. Wilson's interval is two-sided."),
            (5.0, "1 / 20 would be one case."),
        ),
        "With p = 0 the formula is z squared / n, divided by 1 + z squared / n.",
    ),
    Exercise(
        0.0215,
        (
            (0.0107, "That is one side. The test is two-sided: twice as much."),
            (0.00977, "9 *or more*: add the probability of 10 of 10, and both sides."),
            (0.1, "1 of 10 is a share. The test asks how often fair coins are so uneven."),
        ),
        "The probability that of ten fair coins nine or more fall on one side, times two.",
    ),
)
