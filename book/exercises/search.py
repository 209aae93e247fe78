"""The exercises of chapter 12."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from book.exercise import Exercise
from book.toy import Random

MODEL = Random(sources=3, end=0.5, seed=3)


def _outputs(greedy: Callable[..., Any]) -> list[list[int]]:
    return [[int(token) for token in greedy(lambda tokens, n=n: MODEL.following(n, tokens), 12)] for n in range(3)]


def _greedy(
    following: Callable[..., Any], longest: int, keep_end: bool = True, worst: bool = False, stop: bool = True
) -> list[int]:
    tokens: list[int] = []
    while len(tokens) < longest:
        scores = np.array(following(tuple(tokens)))
        tokens.append(int(np.argmin(scores) if worst else np.argmax(scores)))
        if tokens[-1] == 2 and stop:
            break
    return tokens if keep_end or tokens[-1] != 2 else tokens[:-1]


EXERCISES = (
    Exercise(
        {"Ax", "Bx"},
        (
            (
                {"Ax", "Ay"},
                "A is the better beginning, but Bx (-1.3) is better than Ay (-1.9): all continuations compete.",
            ),
            ({"Bx", "Ay"}, "Ax has -1.5, which is better than Ay with -1.9."),
            ({"Bx", "By"}, "By has -3.2. Add the log-probability of the beginning and of the word."),
        ),
        "Add up each beginning and word, and keep the two largest of all four sums.",
    ),
    Exercise(
        -0.8,
        (
            (-1.0, "That is the mean of the shorter output. -0.8 is larger."),
            (-4, "That is a sum. Divide by the number of tokens."),
            (-7.2, "That is the sum of the longer output. Divide it by 9."),
        ),
        "Divide each log-probability by its number of tokens; the larger is better.",
    ),
    Exercise(
        lambda following, longest: _greedy(following, longest),
        (
            (
                lambda following, longest: _greedy(following, longest, keep_end=False),
                "The end, token 2, is part of the output.",
            ),
            (
                lambda following, longest: _greedy(following, longest, stop=False),
                "Stop at token 2: nothing follows the end.",
            ),
            (
                lambda following, longest: _greedy(following, longest, worst=True),
                "Take the largest log-probability; all are negative.",
            ),
        ),
        "Start with no tokens; append the argmax until it is 2 or there are `longest` tokens.",
        _outputs,
    ),
)
