"""The exercises of chapter 24."""

from __future__ import annotations

from book.exercise import Exercise

EXERCISES = (
    Exercise(
        0.001 / 0.051,
        (
            (0.02, "a / p leaves out the a in the denominator: for a rare word, the weight would exceed 1."),
            (0.051, "That is the denominator."),
            (0.98, "That is p / (a + p): frequent words must count little."),
        ),
        "a / (a + p).",
    ),
    Exercise(
        [2 / 3, 2 / 3],
        (
            ([2, 2], "That is the sum. Divide by the number of words."),
            ([1, 1], "Divide by three words, not by two."),
            ([0.5, 0.5], "The third vector counts, too."),
        ),
        "Add the vectors, and divide by three.",
    ),
    Exercise(
        [0, 4],
        (
            ([3, 0], "That is the common part, which is removed."),
            ([2, 4], "u is subtracted as often as the vector has of it: 3 times."),
            ([0, 1], "The length is not changed afterwards."),
        ),
        "v - (v u) u, and v u is 3.",
    ),
)
