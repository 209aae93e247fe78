"""Error rates: edits from the nearest reference, over its length."""

from __future__ import annotations

from collections.abc import Sequence

from rapidfuzz.distance import Levenshtein

from transduce.metrics.references import references
from transduce.types import Example, Prediction


class ErrorRate:
    """Insertions, deletions and substitutions in percent of the units in the references, over the whole corpus.

    Of several references the nearest one counts, by distance, and its length goes into the denominator; of equally
    near ones the shortest, which is the stricter choice and does not depend on their order. If all references are
    empty the rate is 0 where all predictions are too, else 100, as sacreBLEU has it for TER.
    """

    name: str
    unit: str
    higher_is_better = False
    needs_forcing = False

    @property
    def signature(self) -> str:
        return f"unit:{self.unit}|case:mixed|refs:nearest|ties:shortest"

    def units(self, text: str) -> Sequence[str]:
        """What is counted."""
        raise NotImplementedError

    def nearest(self, prediction: Prediction, example: Example) -> tuple[int, Sequence[str], Sequence[str]]:
        """The distance to the nearest reference, the units of that reference, and those of the prediction."""
        predicted = self.units(prediction.text)
        given = (self.units(text) for text in references(example))
        edits, _, reference = min((Levenshtein.distance(units, predicted), len(units), units) for units in given)
        return edits, reference, predicted

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        edits, reference, _ = self.nearest(prediction, example)
        return edits, len(reference)

    def score(self, total: Sequence[float]) -> float:
        edits, length = total
        if not length:
            return 100.0 if edits else 0.0
        return 100.0 * edits / length


class CharacterErrorRate(ErrorRate):
    """``cer``: edits in percent of the length of the nearest reference, in Unicode code points, spaces included,
    nothing normalised."""

    name = "cer"
    unit = "character"

    def units(self, text: str) -> Sequence[str]:
        return text


class WordErrorRate(ErrorRate):
    """``wer``: edits in percent of the length of the nearest reference, in words between white space. What the
    pronunciation literature calls WER is ``item_error``."""

    name = "wer"
    unit = "word"

    def units(self, text: str) -> Sequence[str]:
        return text.split()


class PhonemeErrorRate(WordErrorRate):
    """``per``: edits in percent of the length of the nearest reference, in symbols between white space, as phonemes are
    written."""

    name = "per"
    unit = "symbol"
