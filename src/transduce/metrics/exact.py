"""Shares of outputs, or of tokens, that are exactly right."""

from __future__ import annotations

import math
from collections.abc import Sequence

from transduce.core.errors import UserError
from transduce.core.types import Example, Prediction
from transduce.metrics.perplexity import Contexts
from transduce.metrics.statistics import references
from transduce.metrics.units import canonical


class ExactMatch:
    """``exact``: the percentage of outputs that equal one of their references, character by character in NFC."""

    name = "exact"
    higher_is_better = True
    needs_forcing = False
    signature = "unit:output|case:mixed|norm:nfc|refs:any"

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        return float(canonical(prediction.text) in map(canonical, references(example))), 1.0

    def score(self, total: Sequence[float]) -> float:
        counted, outputs = total
        return 100.0 * counted / outputs


class ItemError(ExactMatch):
    """``item_error``: the percentage of outputs that equal none of their references; WER in the literature on
    pronunciation.
    """

    name = "item_error"
    higher_is_better = False

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        return float(canonical(prediction.text) not in map(canonical, references(example))), 1.0


class TokenAccuracy:
    """``token_accuracy``: the percentage of tokens of the first reference, end included, that are the model's first
    choice after the reference's tokens before them: next-step accuracy (Jozefowicz et al. 2015, table 1).

    Tokens depend on the vocabulary, so compare only models with the same one. If several tokens are equally probable,
    only the one that a search would write is the first choice. A parallel model chooses each token given the length of
    the reference, and its end is right if that length is its first choice of a length. If the source determines the
    length, as for labels, the end is no choice and does not count. The score of no tokens is NaN.
    """

    name = "token_accuracy"
    higher_is_better = True
    needs_forcing = True

    def __init__(self) -> None:
        self.contexts = Contexts()

    @property
    def signature(self) -> str:
        return f"unit:token|end:counted|refs:first|forced{self.contexts.signature}"

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        if prediction.forced_right is None or prediction.forced_length is None:
            raise UserError(
                f"token_accuracy needs the model's choices along the reference, and the prediction for "
                f"{example.source!r} has none: make predictions with Transducer.evaluate, or set forced_right and "
                "forced_length"
            )
        self.contexts.note(prediction)
        return float(prediction.forced_right), float(prediction.forced_length)

    def score(self, total: Sequence[float]) -> float:
        right, tokens = total
        return 100.0 * right / tokens if tokens else math.nan
