"""Whole outputs, right or wrong."""

from __future__ import annotations

from collections.abc import Sequence

from transduce.metrics.references import references
from transduce.types import Example, Prediction


class ExactMatch:
    """``exact``: the percentage of outputs that equal one of their references, character by character."""

    name = "exact"
    higher_is_better = True
    needs_forcing = False
    signature = "unit:output|case:mixed|refs:any"

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        return float(prediction.text in references(example)), 1.0

    def score(self, total: Sequence[float]) -> float:
        counted, outputs = total
        return 100.0 * counted / outputs


class ItemError(ExactMatch):
    """``item_error``: the percentage of outputs that equal none; WER in the literature on pronunciation."""

    name = "item_error"
    higher_is_better = False

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        return float(prediction.text not in references(example)), 1.0
