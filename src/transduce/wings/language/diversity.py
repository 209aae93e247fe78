"""Metrics of outputs alone: how diverse and how long they are."""

from __future__ import annotations

import math
from collections.abc import Sequence

from transduce.core.types import Example, Prediction
from transduce.metrics.suitability import needs_spaces
from transduce.metrics.units import canonical


class Distinct:
    """Base class of the metrics: different n-grams of words in all outputs, in percent of all n-grams in all outputs
    (Li et al. 2016). Words are what white space separates, in lower case. References are not read.

    A row of statistics has two numbers: n-grams that no earlier output has, and all n-grams. So the score of a corpus
    is exact, and an interval from resampled rows is not that of resampled corpora. The score falls with the number of
    outputs; compare systems on the same sources. It is NaN without any n-gram.
    """

    name: str
    n: int
    higher_is_better = True
    needs_forcing = False

    def __init__(self) -> None:
        self._seen: set[tuple[str, ...]] = set()

    @property
    def signature(self) -> str:
        return f"unit:{self.n}-gram|words:white-space|case:lc|over:corpus"

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        words = canonical(prediction.text.lower()).split()
        ngrams = list(zip(*(words[start:] for start in range(self.n)), strict=False))
        new = set(ngrams) - self._seen
        self._seen |= new
        return float(len(new)), float(len(ngrams))

    def misfit(self, references: Sequence[str]) -> str:
        return needs_spaces(references, "separate the words of outputs by spaces")

    def score(self, total: Sequence[float]) -> float:
        different, ngrams = total
        return 100.0 * different / ngrams if ngrams else math.nan


class Distinct1(Distinct):
    """``distinct1``: the different words of all outputs, in percent of all their words (Li et al. 2016).

    An interval is no interval of this score: it keeps which output a word is new in.
    """

    name = "distinct1"
    n = 1


class Distinct2(Distinct):
    """``distinct2``: the different pairs of adjacent words of all outputs, in percent of all pairs (Li et al. 2016).

    An interval is no interval of this score: it keeps which output a pair is new in.
    """

    name = "distinct2"
    n = 2


class MeanLength:
    """``mean_length``: the mean number of words of an output, which white space separates."""

    name = "mean_length"
    higher_is_better = True
    needs_forcing = False
    signature = "unit:word|words:white-space"

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        return float(len(prediction.text.split())), 1.0

    def misfit(self, references: Sequence[str]) -> str:
        return needs_spaces(references, "separate the words of outputs by spaces")

    def score(self, total: Sequence[float]) -> float:
        words, outputs = total
        return words / outputs if outputs else math.nan
