"""Metrics of constituency trees: labelled brackets, counted as the program EVALB counts them (PARSEVAL, Black et al.
1991).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from transduce.core.types import Example, Prediction
from transduce.metrics.labels import f1
from transduce.metrics.statistics import references
from transduce.wings.syntax import constituents


class BracketMetric:
    """Base class of the metrics. A bracket is the label of a constituent with the places of its first and last word.

    As in EVALB with its file COLLINS.prm, words whose part of speech in the reference is punctuation are left out, and
    so are the labels TOP, ROOT, S1 and -NONE-. A label ends at its first "-" or "=" that is not its first character,
    and PRT equals ADVP. The parts of speech of the prediction do not count. A prediction with another number of words,
    or that is not a tree, has no right bracket; EVALB leaves such a sentence out. If there are several references, the
    first counts.

    A row of statistics has five numbers: right brackets, brackets of the prediction, brackets of the reference, 1 if
    all are right (otherwise 0), and 1 for the sentence.
    """

    name: str
    unit = "bracket"
    higher_is_better = True
    needs_forcing = False

    @property
    def signature(self) -> str:
        return f"unit:{self.unit}|rules:evalb-collins|unequal-words:wrong|refs:first"

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        reference = constituents.read(references(example)[0])
        ignored = [leaf.pos in constituents.PUNCTUATION for leaf in reference.leaves]
        wanted = constituents.brackets(reference, ignored)
        try:
            predicted = constituents.read(prediction.text)
        except constituents.TreeError:
            return 0.0, 0.0, float(wanted.total()), 0.0, 1.0
        words = len(predicted.leaves)
        found = constituents.brackets(predicted, ignored if words == len(ignored) else [False] * words)
        right = (wanted & found).total() if words == len(ignored) else 0
        return float(right), float(found.total()), float(wanted.total()), float(found == wanted), 1.0

    def score(self, total: Sequence[float]) -> float:
        raise NotImplementedError

    def sentence_score(self, row: Sequence[float]) -> float:
        """The score of one sentence. Without brackets to count it is 100 if both trees have none, otherwise 0."""
        score, exact = self.score(row), row[3]
        return 100.0 * exact if math.isnan(score) else score


class BracketF1(BracketMetric):
    """``bracket_f1``: the F1 of labelled brackets in percent: 2 right / (predicted + reference). It is NaN without any
    bracket.
    """

    name = "bracket_f1"

    def score(self, total: Sequence[float]) -> float:
        right, predicted, reference, *_ = total
        return 100.0 * f1(right, predicted, reference) if predicted or reference else math.nan


class BracketPrecision(BracketMetric):
    """``bracket_precision``: the percentage of the predicted labelled brackets that the reference has. It is
    NaN without a predicted bracket.
    """

    name = "bracket_precision"

    def score(self, total: Sequence[float]) -> float:
        right, predicted, *_ = total
        return 100.0 * right / predicted if predicted else math.nan


class BracketRecall(BracketMetric):
    """``bracket_recall``: the percentage of the reference's labelled brackets that the prediction has. It is NaN
    without a bracket in the references.
    """

    name = "bracket_recall"

    def score(self, total: Sequence[float]) -> float:
        right, _, reference, *_ = total
        return 100.0 * right / reference if reference else math.nan


class BracketExact(BracketMetric):
    """``bracket_exact``: the percentage of sentences whose labelled brackets are all right ("complete match")."""

    name = "bracket_exact"
    unit = "sentence"

    def score(self, total: Sequence[float]) -> float:
        *_, exact, sentences = total
        return 100.0 * exact / sentences if sentences else math.nan
