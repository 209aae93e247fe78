"""The exercises of chapter 10."""

from __future__ import annotations

import math

from book.exercise import Exercise

EXERCISES = (
    Exercise(
        math.sin(1),
        (
            (math.cos(1), "That is the second feature: even features are sines."),
            (math.sin(math.radians(1)), "Angles are in radians, not in degrees."),
            (math.sin(1 / 10000), "The first exponent is 0: 10000 to the power of 0 is 1."),
        ),
        "sin(p / 10000^(2i/d)) with p = 1 and i = 0.",
    ),
    Exercise(
        32,
        (
            (64, "Each *pair* of features adds sin^2 + cos^2 = 1."),
            (1, "One pair adds 1, and there are 32 pairs."),
            (math.sqrt(32), "That is the length. The question is about its square."),
        ),
        "A sine and a cosine of the same angle: their squares add up to 1.",
    ),
    Exercise(
        False,
        (
            (True, "The set of words is the same, and attention is a mean over the set."),
            ("no", "Answer with True or False, without quotation marks."),
            (None, "There is no answer yet: True or False."),
        ),
        "Answer with True or False.",
    ),
)
