"""How surprised the model is by the reference."""

from __future__ import annotations

import math
from collections.abc import Sequence

from transduce.errors import UserError
from transduce.metrics.references import references
from transduce.types import Example, Prediction


class Perplexity:
    """``perplexity``: exp of the mean negative log-probability of a token of the first reference, end included where
    it is a choice.

    Tokens are the model's own, so only models with the same vocabulary compare.
    """

    name = "perplexity"
    unit = "token"
    higher_is_better = False
    needs_forcing = True

    @property
    def signature(self) -> str:
        return f"unit:{self.unit}|end:counted|refs:first"

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        if prediction.forced_log_prob is None or prediction.forced_length is None:
            raise UserError(
                f"{self.name} needs the log-probability of the reference, and the prediction for {example.source!r} "
                "has none: make predictions with Transducer.evaluate, or set forced_log_prob and forced_length"
            )
        return -prediction.forced_log_prob, float(self.length(prediction.forced_length, example))

    def length(self, tokens: int, example: Example) -> int:
        """What the surprise is divided by: units of the first reference, which has so many tokens, and its end."""
        return tokens

    def score(self, total: Sequence[float]) -> float:
        surprise, units = total
        if not units:
            raise UserError("perplexity of no tokens: each reference needs one that the model has a choice in")
        try:
            return math.exp(surprise / units)
        except OverflowError:  # beyond what a float can hold
            return math.inf


class PerplexityWord(Perplexity):
    """``perplexity_word``: the surprise of ``perplexity`` for each word of the first reference, between white space,
    and its end.

    Models with different vocabularies compare, if none of them is spared words it does not know (``<unk>``).
    """

    name = "perplexity_word"
    unit = "word"

    def length(self, tokens: int, example: Example) -> int:
        return len(references(example)[0].split()) + 1


class PerplexityByte(Perplexity):
    """``perplexity_byte``: the surprise of ``perplexity`` for each byte of the first reference, as UTF-8, and its end.

    Its logarithm to base 2 is bits per byte. Models with different vocabularies compare as in ``perplexity_word``.
    """

    name = "perplexity_byte"
    unit = "byte"

    def length(self, tokens: int, example: Example) -> int:
        return len(references(example)[0].encode(errors="replace")) + 1
