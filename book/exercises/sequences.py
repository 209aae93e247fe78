"""The exercises of chapter 1."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from book.exercise import Exercise

TABLE = {"^": {"a": 0.5, "b": 0.5}, "a": {"a": 0.2, "b": 0.3, "$": 0.5}, "b": {"a": 0.7, "b": 0.1, "$": 0.2}}
LISTS = (["a"], ["a", "b"], ["b", "b", "a"])


def _scores(log_prob: Callable[..., Any]) -> list[float]:
    return [round(float(log_prob(each, TABLE)), 4) for each in LISTS]


def _product(tokens: list[str], begin: bool = True, end: bool = True) -> float:
    pairs = zip(["^", *tokens], [*tokens, "$"], strict=True)
    kept = [pair for pair in pairs if (begin or pair[0] != "^") and (end or pair[1] != "$")]
    return math.prod(TABLE[a][b] for a, b in kept)


EXERCISES = (
    Exercise(
        6,
        (
            (2, "2 is the mean surprise of a symbol. The surprise of the sequence is the sum."),
            (0.015625, "That is the probability. Take its logarithm to base 2, and change the sign."),
            (-math.log(0.015625), "That is in nats: the logarithm to base 2 gives bits."),
        ),
        "Multiply the three probabilities, and take minus the logarithm to base 2.",
    ),
    Exercise(
        4,
        (
            (2, "2 is the mean surprise in bits. The perplexity is 2 to that power."),
            (64, "64 is the inverse of the whole probability. Divide the bits by the number of symbols first."),
            (math.exp(2), "The surprise is in bits, so the base of the power is 2, not e."),
        ),
        "Perplexity is 2 to the power of the mean number of bits of a symbol.",
    ),
    Exercise(
        lambda tokens, table: math.log(_product(tokens)),
        (
            (lambda tokens, table: math.log(_product(tokens, end=False)), "The end is a symbol, too: add log p(end)."),
            (lambda tokens, table: math.log(_product(tokens, begin=False)), "The first token follows the begin, ^."),
            (lambda tokens, table: _product(tokens), "That is the probability: add logarithms instead."),
        ),
        "Add the logarithm for each pair of neighbours, from the begin ^ to the end $.",
        _scores,
    ),
)
