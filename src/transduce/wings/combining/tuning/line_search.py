"""Exact line search for a corpus metric (Och 2003, section 5).

Along a line of weights w + g d, the score of each candidate is a straight line in g. So the best candidate of an
example changes only where two of these lines cross. N examples, C candidates, A candidates that can still become the
best, X crossings, K statistics of the metric.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transduce.wings.combining.tuning.candidates import Candidates, first_largest

Ids = NDArray[np.int64]
Numbers = NDArray[np.float64]

SPOTS = 512  # largest number of points of a line whose score is computed; they are spread over the crossings


@dataclass(frozen=True)
class Envelope:
    """The best candidate of each example along a line, for each step g.

    ``first_N`` are the best candidates at g = minus infinity. Candidate ``after_X`` becomes the best in place of
    ``before_X`` at g = ``step_X`` (ascending).
    """

    first_N: Ids
    step_X: Numbers
    before_X: Ids
    after_X: Ids


def envelope(intercept_C: Numbers, slope_C: Numbers, first_N: Ids) -> Envelope:
    """The upper envelope of the lines ``intercept_C + g slope_C`` of each example: segment n begins at ``first_N[n]``.

    It starts with the line of the smallest slope. The next line is the one of larger slope that crosses first.
    """
    example_C = np.repeat(np.arange(len(first_N)), np.diff(first_N, append=len(slope_C)))
    start_N = _first_by(-slope_C, intercept_C, np.arange(len(slope_C)), first_N)
    best_N, steps, befores, afters = start_N.copy(), list[Numbers](), list[Ids](), list[Ids]()
    open_A = np.flatnonzero(slope_C > slope_C[best_N][example_C])
    while len(open_A):
        before_A = best_N[example_C[open_A]]
        cross_A = (intercept_C[before_A] - intercept_C[open_A]) / (slope_C[open_A] - slope_C[before_A])
        first = np.flatnonzero(np.diff(example_C[open_A], prepend=-1))
        place = _first_by(-cross_A, slope_C[open_A], np.arange(len(open_A)), first)
        steps.append(cross_A[place])
        befores.append(before_A[place])
        afters.append(open_A[place])
        best_N[example_C[open_A[place]]] = open_A[place]
        open_A = open_A[slope_C[open_A] > slope_C[best_N[example_C[open_A]]]]
    if not steps:
        return Envelope(start_N, np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64))
    step_X = np.concatenate(steps)
    order = np.argsort(step_X, kind="stable")
    return Envelope(start_N, step_X[order], np.concatenate(befores)[order], np.concatenate(afters)[order])


def best_step(candidates: Candidates, weights_F: Numbers, direction_F: Numbers) -> tuple[float, float]:
    """The step g along the direction with the best score of the metric among ``SPOTS`` points of the line, and this
    score (negated if lower is better). A point is the middle between two crossings.
    """
    found = envelope(candidates.features_CF @ weights_F, candidates.features_CF @ direction_F, candidates.first_N)
    change_XK = candidates.statistics_CK[found.after_X] - candidates.statistics_CK[found.before_X]
    sums = candidates.statistics_CK[found.first_N].sum(0) + np.concatenate(
        [np.zeros((1, change_XK.shape[1])), np.cumsum(change_XK, 0)]
    )
    bounds = np.concatenate([[-np.inf], found.step_X, [np.inf]])
    wide = np.flatnonzero(np.diff(bounds) > 0)
    chosen = wide[np.unique(np.linspace(0, len(wide) - 1, min(SPOTS, len(wide))).astype(np.int64))]
    scores = [candidates.quality(sums[place]) for place in chosen]
    place = chosen[int(np.argmax(scores))]
    return _middle(float(bounds[place]), float(bounds[place + 1])), max(scores)


def _first_by(largest_A: Numbers, then_largest_A: Numbers, places_A: Ids, first_N: Ids) -> Ids:
    """The entry of ``places_A`` [N] with the largest first value in each segment. If several are equal, it is the entry
    with the largest second value.
    """
    segment_A = np.repeat(np.arange(len(first_N)), np.diff(first_N, append=len(largest_A)))
    best_A = np.maximum.reduceat(largest_A, first_N)[segment_A]
    return places_A[first_largest(np.where(largest_A == best_A, then_largest_A, -np.inf), first_N)]


def _middle(low: float, high: float) -> float:
    if np.isinf(low) and np.isinf(high):
        return 0.0
    if np.isinf(low):
        return high - max(0.1, 0.1 * abs(high))
    if np.isinf(high):
        return low + max(0.1, 0.1 * abs(low))
    return (low + high) / 2
