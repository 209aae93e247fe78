"""The exercises of chapter 11."""

from __future__ import annotations

from book.exercise import Exercise

EXERCISES = (
    Exercise(
        196,
        (
            (14, "14 patches in each direction: a grid has rows and columns."),
            (256, "That is the number of pixels in a patch."),
            (50176, "Those are pixels."),
        ),
        "224 / 16 patches in each direction.",
    ),
    Exercise(
        768,
        (
            (256, "A colour picture has three numbers for each pixel."),
            (48, "16 * 3 is one row of the patch."),
            (196, "That is the number of patches."),
        ),
        "Rows times columns times channels.",
    ),
    Exercise(
        0.5,
        (
            (1 / 3, "That is the softmax over the three keys, as it should be."),
            (1 / 6, "The sum is 1 over one axis, not over both."),
            (1.0, "Each key shares its weight among two queries."),
        ),
        "The weights of each key sum to 1 over the queries. There are two.",
    ),
)
