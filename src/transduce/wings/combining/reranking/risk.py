"""Minimum-Bayes-risk decoding: choose the output that is most similar to all others, not the most probable one."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from transduce.answers.answer import Answer, Output
from transduce.core.errors import UserError
from transduce.core.protocols import Metric
from transduce.core.types import Example, Prediction
from transduce.metrics.statistics import check_compares_texts, sentence_score
from transduce.wings.combining.reranking.base import distinct, ordered


@dataclass(frozen=True)
class MinimumRisk:
    """A reranker by minimum Bayes risk: it puts the output first that is most similar to all outputs of its source,
    argmax over h of sum over r of w_r u(h, r).

    h and r run over the outputs of a source. The utility u is ``metric`` of h alone with r as its reference, negated if
    less is better. The sum becomes the output's score. The weights w_r sum to 1.
    Outputs with the same text become one, and their weights are added.

    Use ``uniform`` weights for samples: a frequent output counts more because it occurs more often (Eikema and Aziz
    2020). Use ``posterior`` weights for the outputs of a beam: w_r is proportional to p(r | x) (Kumar and Byrne 2004).
    Raises UserError for a metric that needs scored references, or for other weights.
    """

    metric: Metric
    weights: Literal["uniform", "posterior"] = "uniform"

    def __post_init__(self) -> None:
        check_compares_texts(self.metric)
        if self.weights not in ("uniform", "posterior"):
            raise UserError(f"weights = {self.weights!r}: uniform (of samples) or posterior (of a beam) was expected")

    def __call__(self, answers: Sequence[Answer]) -> list[Answer]:
        return [replace(answer, outputs=self._ranked(answer)) for answer in answers]

    def _ranked(self, answer: Answer) -> list[Output]:
        weights, candidates = self._weights(answer.outputs), distinct(answer.outputs)
        references = [(Example(answer.request.source, (text,)), weight) for text, weight in weights.items()]
        utilities = [
            sum(weight * self._utility(Prediction(candidate.text), reference) for reference, weight in references)
            for candidate in candidates
        ]
        return ordered(candidates, utilities)

    def _utility(self, prediction: Prediction, reference: Example) -> float:
        score = sentence_score(self.metric, self.metric.statistics(prediction, reference))
        return score if self.metric.higher_is_better else -score

    def _weights(self, outputs: Sequence[Output]) -> dict[str, float]:
        """The weight of each distinct text: the sum over the outputs with this text. All weights sum to 1."""
        weights: defaultdict[str, float] = defaultdict(float)
        log_probs = [0.0 if self.weights == "uniform" else _log_prob(output) for output in outputs]
        best = max(log_probs)
        for output, log_prob in zip(outputs, log_probs, strict=True):
            weights[output.text] += 1.0 if best == -math.inf else math.exp(log_prob - best)
        total = sum(weights.values())
        return {text: weight / total for text, weight in weights.items()}


def _log_prob(output: Output) -> float:
    if output.log_prob is None:
        raise UserError(
            "weights = 'posterior': outputs of a phrase-based model have scores and no probabilities; use uniform "
            "weights"
        )
    return output.log_prob
