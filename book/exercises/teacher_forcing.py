"""The exercises of chapter 6."""

from __future__ import annotations

from collections.abc import Callable

from book.exercise import Exercise

TARGETS = (["a", "b", "</s>"], ["</s>"], ["c", "c", "d", "</s>"])


def _histories(history: Callable[[list[str]], list[str]]) -> list[list[str]]:
    return [list(history(list(each))) for each in TARGETS]


EXERCISES = (
    Exercise(
        100 * 0.98**20,
        (
            (98, "That is the share of tokens. All 20 must be right at once."),
            (60, "98 - 19 * 2 adds up mistakes. Probabilities of independent events are multiplied."),
            (100 - 100 * 0.98**20, "That is the share of outputs with at least one mistake."),
        ),
        "0.98 to the power of 20, in percent.",
    ),
    Exercise(
        100 * 0.5**0.02,
        (
            (99.0, "With 99 %, 0.99 to the power of 50 is 60.5 %: more than needed."),
            (50, "50 % right tokens give almost no right outputs."),
            (0.5**0.02, "In percent: multiply by 100."),
        ),
        "Solve a to the power of 50 = 0.5.",
    ),
    Exercise(
        lambda target: ["<s>", *target[:-1]],
        (
            (lambda target: ["<s>", *target], "The end is never read: nothing follows it."),
            (lambda target: target[:-1], "The first symbol that is read is the begin."),
            (lambda target: target, "At each step it reads the symbol *before* the one that it must predict."),
        ),
        "The same length as the target, shifted by one place.",
        _histories,
    ),
)
