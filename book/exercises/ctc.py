"""The exercises of chapter 14."""

from __future__ import annotations

from book.exercise import Exercise

EXERCISES = (
    Exercise(
        "hello",
        (
            ("helo", "The blank between the two l keeps them apart: merge first, delete blanks then."),
            ("hhelllooo", "Equal neighbours are merged."),
            ("h-e-l-l-o", "Blanks are deleted at the end."),
        ),
        "First merge equal neighbours, then delete the blanks.",
    ),
    Exercise(
        6,
        (
            (5, "The double l needs a blank between, or it would be merged."),
            (11, "Blanks around letters are optional, except between equal ones."),
            (7, "Only one pair of letters is equal."),
        ),
        "One frame for each letter, and one for each pair of equal neighbours.",
    ),
    Exercise(
        0.4375,
        (
            (0.1225, "That is the path aa alone. a- and -a also read a."),
            (0.2025, "That is the path --, which reads the empty text. It is the best path, but not the best text."),
            (0.28, "aa and one of a- and -a: there are three paths."),
        ),
        "Add up the probabilities of all paths that read a.",
    ),
)
