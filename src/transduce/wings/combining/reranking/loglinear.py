"""Log-linear reranking: a weighted sum of several models' log-probabilities, such as the noisy channel's two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, cast

from transduce.answers.answer import Answer, Output
from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.wings.combining.reranking.base import distinct, ordered

Pair = tuple[str, Output]  # a source and one of its outputs


class Feature(Protocol):
    """The contract of features for reranking. A call takes pairs (source text, output) and returns a number for each,
    in order. Higher is better.
    """

    def __call__(self, pairs: Sequence[Pair]) -> list[float]: ...


@dataclass(frozen=True)
class Own:
    """A feature: log p(y | x) of the model that found the output (``Output.log_prob``).

    A phrase-based model gives its outputs no probability. Then it is the score of the output's best derivation.
    """

    def __call__(self, pairs: Sequence[Pair]) -> list[float]:
        return [output.score if output.log_prob is None else output.log_prob for _, output in pairs]


@dataclass(frozen=True)
class Score:
    """A feature: the score that the search ranked by (``Output.score``). For a beam this is the log-probability
    normalised by length, minus the penalties of filters.
    """

    def __call__(self, pairs: Sequence[Pair]) -> list[float]:
        return [output.score for _, output in pairs]


@dataclass(frozen=True)
class LengthFeature:
    """A feature: the number of tokens of an output, ``</s>`` included. A positive weight makes up for the low
    probability of long outputs.
    """

    def __call__(self, pairs: Sequence[Pair]) -> list[float]:
        return [float(len(output.tokens)) for _, output in pairs]


@dataclass(frozen=True)
class Direct:
    """A feature: log p(y | x) of another model of the same direction, which may have another vocabulary. x is the
    source and y the output, as text.
    """

    transducer: Transducer
    batch_size: int = 64

    def __call__(self, pairs: Sequence[Pair]) -> list[float]:
        return _log_probs(self.transducer, [(source, output.text) for source, output in pairs], self.batch_size)


@dataclass(frozen=True)
class Channel:
    """A feature: log p(x | y) of a model of the opposite direction. x is the source and y the output, as text."""

    transducer: Transducer
    batch_size: int = 64

    def __call__(self, pairs: Sequence[Pair]) -> list[float]:
        return _log_probs(self.transducer, [(output.text, source) for source, output in pairs], self.batch_size)


@dataclass(frozen=True)
class Language:
    """A feature: log p(y) of a language model. y is the output as text."""

    transducer: Transducer
    batch_size: int = 64

    def __call__(self, pairs: Sequence[Pair]) -> list[float]:
        return _log_probs(self.transducer, [("", output.text) for _, output in pairs], self.batch_size)


@dataclass(frozen=True)
class LogLinear:
    """A reranker: score(y) = sum over m of weight_m feature_m(x, y).

    ``features`` are pairs of a feature and its weight. ``Channel`` and ``Language`` make the noisy channel, argmax p(x
    | y) p(y); in practice ``Own`` is a third feature (Yee et al. 2019). Raises UserError for a weight that is not
    finite, or if all weights are 0.
    """

    features: tuple[tuple[Feature, float], ...]

    def __post_init__(self) -> None:
        if wrong := [weight for _, weight in self.features if not math.isfinite(weight)]:
            raise UserError(f"weight = {wrong[0]}: a feature's weight is a finite number")
        if not any(weight for _, weight in self.features):
            raise UserError("features: at least one with a weight that is not 0 was expected")

    def __call__(self, answers: Sequence[Answer]) -> list[Answer]:
        candidates = [replace(answer, outputs=distinct(answer.outputs)) for answer in answers]
        pairs = [(answer.request.source, output) for answer in candidates for output in answer.outputs]
        totals = [0.0] * len(pairs)
        for feature, weight in self.features:
            if weight:
                totals = [total + weight * each for total, each in zip(totals, feature(pairs), strict=True)]
        following = iter(totals)
        return [
            replace(answer, outputs=ordered(answer.outputs, [next(following) for _ in answer.outputs]))
            for answer in candidates
        ]


def _log_probs(transducer: Transducer, texts: list[tuple[str, str]], batch_size: int) -> list[float]:
    """The log-probability of each target, from pairs (source, target)."""
    return [cast(float, scored.log_prob) for scored in transducer.score(texts, batch_size)]
