"""Perplexity: how well the model predicts the reference."""

from __future__ import annotations

import math
from collections.abc import Sequence

from transduce.core.errors import UserError
from transduce.core.types import Example, Prediction
from transduce.metrics.statistics import references
from transduce.metrics.suitability import needs_spaces


class Contexts:
    """The contexts (``TextContext.signature``) of the predictions that a metric has seen."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def note(self, prediction: Prediction) -> None:
        self.seen.add(prediction.forced_context)

    @property
    def signature(self) -> str:
        """The end of a metric's signature: "|context:carried". Empty if every line was read alone."""
        return f"|context:{','.join(each or 'line' for each in sorted(self.seen))}" if any(self.seen) else ""


class Perplexity:
    """``perplexity``: exp of the mean negative log-probability of the first reference's tokens, over all tokens of the
    corpus.

    The end counts if the model chooses it. If the model read the text before a line, the signature has the context:
    ``carried`` or ``window-SIZE/STRIDE``. Tokens are the model's own, so compare only models with the same vocabulary.
    The score of no tokens is NaN.
    """

    name = "perplexity"
    unit = "token"
    higher_is_better = False
    needs_forcing = True

    def __init__(self) -> None:
        self.contexts = Contexts()

    @property
    def signature(self) -> str:
        return f"unit:{self.unit}|end:counted|refs:first{self.contexts.signature}"

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        if prediction.forced_log_prob is None or prediction.forced_length is None:
            raise UserError(
                f"{self.name} needs the log-probability of the reference, and the prediction for {example.source!r} "
                "has none: make predictions with Transducer.evaluate, or set forced_log_prob and forced_length"
            )
        self.contexts.note(prediction)
        return -prediction.forced_log_prob, float(self.length(prediction, example))

    def length(self, prediction: Prediction, example: Example) -> int:
        """The number of units of one example that the negative log-probability is divided by: here tokens."""
        return prediction.forced_length or 0

    def score(self, total: Sequence[float]) -> float:
        surprise, units = total
        if not units:
            return math.nan
        try:
            return math.exp(surprise / units)
        except OverflowError:  # larger than the largest float
            return math.inf


class PerplexityWord(Perplexity):
    """``perplexity_word``: like ``perplexity``, per word of the first reference (between white space).

    The end counts as a word if the model chooses it. It compares models with different vocabularies, unless one of them
    may replace unknown words by ``<unk>``.
    """

    name = "perplexity_word"
    unit = "word"

    def length(self, prediction: Prediction, example: Example) -> int:
        return len(references(example)[0].split()) + prediction.forced_end

    def misfit(self, references: Sequence[str]) -> str:
        return needs_spaces(references, "measure bits_per_character or perplexity_byte")


class PerplexityByte(Perplexity):
    """``perplexity_byte``: like ``perplexity``, per UTF-8 byte of the first reference.

    The end counts as a byte if the model chooses it. Its logarithm to base 2 is bits per byte. It compares models with
    different vocabularies as ``perplexity_word`` does.
    """

    name = "perplexity_byte"
    unit = "byte"

    def length(self, prediction: Prediction, example: Example) -> int:
        return len(references(example)[0].encode(errors="replace")) + prediction.forced_end


class BitsPerCharacter(Perplexity):
    """``bits_per_character``: the mean negative log-probability of the first reference's characters, to base 2.

    The end counts as a character, such as a line feed, if the model chooses it. Characters are Unicode code points. The
    number times 0.693 is nats per character. It compares models with different vocabularies as ``perplexity_word``
    does.
    """

    name = "bits_per_character"
    unit = "character"

    def length(self, prediction: Prediction, example: Example) -> int:
        return len(references(example)[0]) + prediction.forced_end

    def score(self, total: Sequence[float]) -> float:
        surprise, units = total
        return surprise / units / math.log(2) if units else math.nan
