"""The exercises of chapter 18."""

from __future__ import annotations

from book.exercise import Exercise

EXERCISES = (
    Exercise(
        12,
        (
            (14, "That trusts the sensor alone. Both variances are equal, so the gain is one half."),
            (10, "That ignores the measurement."),
            (24, "The mean is a weighted mean of 10 and 14."),
        ),
        "Gain = 4 / (4 + 4); the mean moves by the gain times the error.",
    ),
    Exercise(
        2,
        (
            (4, "A measurement always makes us surer."),
            (8, "4 + 4 is the variance of the *error*, from which the gain is made."),
            (1, "The factor is 1 - K = 0.5, once."),
        ),
        "(1 - K) P with K = 0.5.",
    ),
    Exercise(
        9,
        (
            (3, "Each step of movement adds 2."),
            (7, "Two steps have no measurement, and the third is predicted, too: three steps of movement."),
            (5, "That is one step."),
        ),
        "Without measurements, only predictions: add 2 at each of three steps.",
    ),
)
