"""The exercises of chapter 4."""

from __future__ import annotations

from book.exercise import Exercise

EXERCISES = (
    Exercise(
        4,
        (
            (3, "The end is a symbol that the decoder must write, too."),
            (5, "The begin is read, not written."),
            (2, "Each letter is one step."),
        ),
        "Count the letters and the end.",
    ),
    Exercise(
        "b",
        (
            ("a", "a is what it writes at step three. It reads what was written at step two."),
            ("c", "c was written at step one, and read at step two."),
            ("x", "It reads its own outputs; the source came in before the first step."),
        ),
        "At each step the decoder reads the symbol that was written at the step before.",
    ),
    Exercise(
        512,
        (
            (128, "That is one vector. An LSTM leaves h and c, and each direction leaves its own."),
            (256, "Two directions *and* two vectors each."),
            (1024, "There is one layer: two directions times h and c."),
        ),
        "Two directions, and each leaves an h and a c of 128 numbers.",
    ),
)
