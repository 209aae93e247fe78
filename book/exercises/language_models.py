"""The exercises of chapter 22."""

from __future__ import annotations

import math

from book.exercise import Exercise

EXERCISES = (
    Exercise(
        2**7.5,
        (
            (7.5, "Those are bits of a word. The perplexity is 2 to that power."),
            (2**1.5, "That is per character. Divide by the number of words."),
            (math.exp(7.5), "The surprise is in bits, so the base is 2."),
        ),
        "2 to the power of the bits of a word.",
    ),
    Exercise(
        math.log2(20) / 5,
        (
            (4.0, "20 / 5 divides a perplexity. Take its logarithm first."),
            (math.log2(20), "That is per word. A word has 5 characters."),
            (math.log(20) / 5, "That is in nats."),
        ),
        "The bits of a word, divided by the characters of a word.",
    ),
    Exercise(
        "A",
        (
            ("B", "B has more bits per character. Fewer are better."),
            ("both", "0.86 and 1.0 bits: they differ."),
            ("neither", "Both are measured on the same text, so they can be compared by characters."),
        ),
        "Compare the bits per character: fewer are better.",
    ),
)
