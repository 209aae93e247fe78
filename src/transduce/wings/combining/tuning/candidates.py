"""The n-best lists of all tuning iterations, merged.

N examples, C candidates of all examples, F features, K statistics of the metric.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from transduce.answers.answer import Answer
from transduce.core.protocols import Metric
from transduce.core.types import Example, Prediction

Ids = NDArray[np.int64]
Numbers = NDArray[np.float64]

DIGITS = 6  # derivations are the same if their features are equal in this many decimal places


@dataclass(frozen=True)
class Candidates:
    """Candidate outputs, sorted by example: ``example_C`` ascends, and each of the N examples has at least one. Each
    candidate has features and the statistics of ``metric``.
    """

    metric: Metric
    example_C: Ids
    features_CF: Numbers
    statistics_CK: Numbers

    @cached_property
    def first_N(self) -> Ids:
        """The index [N] of the first candidate of each example."""
        return np.flatnonzero(np.diff(self.example_C, prepend=-1))

    def score(self, weights_F: Numbers) -> float:
        """The metric's corpus score of the best candidates, negated if lower is better. The best candidate of an
        example has the largest weighted sum of features.
        """
        return self.quality(self.statistics_CK[first_largest(self.features_CF @ weights_F, self.first_N)].sum(0))

    def quality(self, sums_K: Numbers) -> float:
        """The metric's score of statistics that are summed over the corpus, negated if lower is better. NaN becomes
        minus infinity.
        """
        score = self.metric.score(sums_K.tolist())
        if math.isnan(score):
            return -math.inf
        return score if self.metric.higher_is_better else -score


def first_largest(values_C: Numbers, first_N: Ids) -> Ids:
    """The index [N] of the largest value of each segment. Segment n begins at ``first_N[n]``. If several values are
    equal, it is the first one.
    """
    size_N = np.diff(first_N, append=len(values_C))
    segment_C = np.repeat(np.arange(len(first_N)), size_N)
    largest_C = np.maximum.reduceat(values_C, first_N)[segment_C]
    places = np.flatnonzero(values_C == largest_C)[::-1]
    found_N = np.zeros(len(first_N), np.int64)
    found_N[segment_C[places]] = places  # the last assignment has the first place
    return found_N


@dataclass
class Merged:
    """The merged n-best lists, which grow with each iteration. ``known`` has the different outputs of each example, as
    text and rounded features. ``statistics`` has the metric's statistics of each text.
    """

    metric: Metric
    examples: Sequence[Example]
    known: list[dict[tuple[str, tuple[float, ...]], None]] = field(default_factory=list)
    statistics: list[dict[str, Sequence[float]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.known = [{} for _ in self.examples]
        self.statistics = [{} for _ in self.examples]

    def add(self, answers: Sequence[Answer]) -> int:
        """Adds the outputs of one answer to each example. Returns the number of new outputs, by text and features."""
        before = len(self)
        for answer, example, known, measured in zip(answers, self.examples, self.known, self.statistics, strict=True):
            for output in answer.outputs:
                assert output.derived is not None
                features = tuple(round(value, DIGITS) for value in output.derived.derivation.features)
                known[output.text, features] = None
                if output.text not in measured:
                    measured[output.text] = self.metric.statistics(Prediction(output.text), example)
        return len(self) - before

    def __len__(self) -> int:
        return sum(map(len, self.known))

    def best(self, answers: Sequence[Answer]) -> Numbers:
        """The statistics [N, K] of the best output of each answer. The answers must have been added before."""
        rows = [measured[answer.best.text] for answer, measured in zip(answers, self.statistics, strict=True)]
        return np.array(rows, float)

    def candidates(self) -> Candidates:
        """All different outputs so far."""
        rows = [(number, text, features) for number, known in enumerate(self.known) for text, features in known]
        return Candidates(
            self.metric,
            np.array([number for number, _, _ in rows], np.int64),
            np.array([features for _, _, features in rows]),
            np.array([self.statistics[number][text] for number, text, _ in rows], float),
        )
