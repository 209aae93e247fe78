"""The exercises of chapter 19."""

from __future__ import annotations

from book.exercise import Exercise

EXERCISES = (
    Exercise(
        1 / 3,
        (
            (1 / 9, "Divide by the number of times that *the* occurs, not by all words."),
            (1.0, "*the* is also followed by *mat* and by *end*."),
            (0.5, "*the* occurs three times."),
        ),
        "The count of *the cat*, divided by the count of *the*.",
    ),
    Exercise(
        (2, 1),
        (
            ((2, 2), "Those are counts. Francisco stands twice after the *same* word."),
            ((1, 2), "Turned round, and counts: the question is how many *different* words stand before."),
            ((3, 1), "tea stands after a and after the."),
        ),
        "List the words before each of them, without repetitions.",
    ),
    Exercise(
        0.4,
        (
            (0.375, "The share of the shorter history is missing: 1/4 of 0.1."),
            (0.525, "The discount is subtracted: (2 - 0.5) / 4."),
            (0.475, "The weight of the shorter history is 1/4, not 1."),
        ),
        "(count - discount) / total + weight * shorter.",
    ),
)
