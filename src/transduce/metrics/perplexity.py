"""How surprised the model is by the reference."""

from __future__ import annotations

import math
from collections.abc import Sequence

from transduce.types import Example, Prediction


class Perplexity:
    """``perplexity``: exp of the mean negative log-probability of a token of the first reference, end included.

    Tokens are the model's own, so only models with the same vocabulary compare.
    """

    name = "perplexity"
    higher_is_better = False
    needs_forcing = True
    signature = "unit:token|end:counted|refs:first"

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        if prediction.forced_log_prob is None or prediction.forced_length is None:
            raise ValueError(
                f"perplexity needs the log-probability of the reference, and the prediction for {example.source!r} has "
                "none: make predictions with Transducer.evaluate, or set forced_log_prob and forced_length"
            )
        return -prediction.forced_log_prob, float(prediction.forced_length)

    def score(self, total: Sequence[float]) -> float:
        surprise, tokens = total
        if not tokens:
            raise ValueError("perplexity of no tokens: forced_length counts at least the end of each reference")
        try:
            return math.exp(surprise / tokens)
        except OverflowError:  # beyond what a float can hold
            return math.inf
