"""The exercises of chapter 9."""

from __future__ import annotations

from book.exercise import Exercise

EXERCISES = (
    Exercise(
        64,
        (
            (512, "The heads share the width: each has a part of it."),
            (4096, "512 * 8 would make the layer eight times as wide."),
            (8, "That is the number of heads, or the root of the width of a head."),
        ),
        "Divide the width by the number of heads.",
    ),
    Exercise(
        4 * 512**2 + 2 * 512 * 2048,
        (
            (3 * 512**2 + 2 * 512 * 2048, "Queries, keys, values *and* the output projection: four matrices."),
            (4 * 512**2 + 512 * 2048, "The feed-forward network has two matrices: to 2048 and back."),
            (8 * 4 * 512**2 + 2 * 512 * 2048, "Heads do not multiply the weights: they divide the width."),
        ),
        "Four matrices of attention, two of the feed-forward network.",
    ),
    Exercise(
        256,
        (
            (16, "The roots do not matter: set n^2 d = n d^2 and divide both sides by n d."),
            (65536, "That is d squared."),
            (512, "Set n^2 d = n d^2 and solve for n."),
        ),
        "Set n^2 d = n d^2.",
    ),
)
