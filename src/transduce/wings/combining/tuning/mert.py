"""Minimum error rate training (Och 2003): finds the weights whose best candidates have the best score."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from transduce.wings.combining.tuning.candidates import Candidates
from transduce.wings.combining.tuning.line_search import best_step

Numbers = NDArray[np.float64]

LEAST_GAIN = 0.005  # a round that raises the score by less is the last


def optimise(
    candidates: Candidates, weights_F: Numbers, starts: int, rounds: int, random: np.random.Generator
) -> tuple[Numbers, float]:
    """The best weights, and their score (negated if lower is better). They are found by climbs from ``weights_F`` and
    from ``starts`` random changes of them. A climb has at most ``rounds`` rounds. The weights are scaled so that the
    sum of their absolute values stays the same.
    """
    size = np.abs(weights_F).sum()
    spread = size / len(weights_F)
    begins = [weights_F, *(weights_F + random.normal(0, spread, (starts, len(weights_F))))]
    found = [_climb(candidates, begin, rounds, random) for begin in begins]
    best, score = max(found, key=lambda each: each[1])  # if scores are equal, the first one, with the smallest change
    return best * (size / np.abs(best).sum()), score


def _climb(
    candidates: Candidates, weights_F: Numbers, rounds: int, random: np.random.Generator
) -> tuple[Numbers, float]:
    """Searches along the line of each weight and along as many random directions, in at most ``rounds`` rounds, until a
    round gains too little. Returns the weights and their score (negated if lower is better).
    """
    score = candidates.score(weights_F)
    for _ in range(rounds):
        before = score
        directions = np.concatenate([np.eye(len(weights_F)), random.normal(0, 1, (len(weights_F), len(weights_F)))])
        for direction_F in random.permutation(directions):
            step, there = best_step(candidates, weights_F, direction_F)
            if there > score:
                weights_F, score = weights_F + step * direction_F, there
        if score - before < LEAST_GAIN:
            break
    return weights_F, score
