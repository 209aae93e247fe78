"""The exercises of chapter 20."""

from __future__ import annotations

from book.exercise import Exercise

EXERCISES = (
    Exercise(
        0.5,
        (
            (
                1.0,
                "That is where EM ends, after many passes. In the first pass, das also gets halves of house and of book.",
            ),
            (1 / 3, "That is the start. the occurs with das twice, house and book once each."),
            (0.25, "The counts of das are: the 1/2 + 1/2, house 1/2, book 1/2. Divide by their sum, 2."),
        ),
        "Count fractions: each target word is shared equally by the two source words of its pair.",
    ),
    Exercise(
        0.5,
        (
            (0.25, "Haus stands in one pair only: its counts are the 1/2 and house 1/2."),
            (0.0, "Not yet: Haus stood beside the, too."),
            (1.0, "Haus has the fractions of two words."),
        ),
        "Haus gets half of *the* and half of *house*; divide by their sum.",
    ),
    Exercise(
        0.5,
        (
            (
                2 / 3,
                "t(the | das) and t(the | Haus) are both 1/2. It is *house* that moves first: t(house | das) is 1/4.",
            ),
            (1.0, "Divide t(the | das) by the sum over both source words."),
            (0.25, "Divide by the sum of both."),
        ),
        "t(the | das) / (t(the | das) + t(the | Haus)).",
    ),
)
