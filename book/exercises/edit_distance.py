"""The exercises of chapter 15."""

from __future__ import annotations

from collections.abc import Callable

import transduce
from book.exercise import Exercise

LINES = [("the cat sat", "the cat sat"), ("the cat sat", "a cat"), ("one two", "one two three four five")]


def _rates(error_rate: Callable[[str, str], float]) -> list[float]:
    return [round(float(error_rate(*line)), 3) for line in LINES]


def _words(reference: str, output: str) -> float:
    return transduce.distance(output, reference, units="words").distance


EXERCISES = (
    Exercise(
        3,
        (
            (5, "5 counts a substitution as 2. Here each edit costs 1."),
            (2, "2 leaves out the g at the end, which is an insertion."),
            (4, "4 is what you get if letters are compared place by place and the longer rest is added to it twice."),
        ),
        "Align the two words: which letters differ, and which one is added?",
    ),
    Exercise(
        transduce.distance("intention", "execution", substitution=2).count,
        (
            (8, "8 is the distance. Count the paths: `.count`."),
            (transduce.distance("intention", "execution").count, "That is the number if a substitution costs 1."),
            (1, "`alignment` gives one path. There are more: see `alignments` or `count`."),
        ),
        "`transduce.distance(..., substitution=2).count` counts the paths of the table.",
    ),
    Exercise(
        lambda reference, output: 100 * _words(reference, output) / len(reference.split()),
        (
            (
                lambda reference, output: 100 * _words(reference, output) / len(output.split()),
                "Divide by the words of the reference: the output's length must not change the measure.",
            ),
            (
                lambda reference, output: 100 * transduce.distance(output, reference).distance / len(reference),
                'That is the character error rate: give `units="words"`.',
            ),
            (
                lambda reference, output: _words(reference, output) / len(reference.split()),
                "In percent: multiply by 100.",
            ),
        ),
        "Divide the distance in words by the number of words of the reference. A rate may exceed 100.",
        _rates,
    ),
)
