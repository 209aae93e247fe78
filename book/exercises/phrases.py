"""The exercises of chapter 21."""

from __future__ import annotations

from book.exercise import Exercise

EXERCISES = (
    Exercise(
        10,
        (
            (4, "Those are the single words. Longer spans count, too."),
            (16, "A source span has just one target span here, if all words are linked."),
            (24, "The order is fixed: count spans, not permutations."),
        ),
        "Count the spans of 1, 2, 3 and 4 words.",
    ),
    Exercise(
        False,
        (
            (True, "sieht is linked with sees, which is outside: the pair is not consistent."),
            ("no", "Answer with True or False, without quotation marks."),
            (None, "There is no answer yet: True or False."),
        ),
        "Answer with True or False: does a link lead out of the pair?",
    ),
    Exercise(
        64,
        (
            (6, "Those are the stacks without the empty one. A stack holds many different sets."),
            (720, "That is the number of *orders* in which words can be covered."),
            (63, "The empty set counts, too: the search begins with it."),
        ),
        "Each of the six words is covered or not.",
    ),
)
