"""Error rates: the edits to the nearest reference, divided by its length."""

from __future__ import annotations

from collections.abc import Sequence

from rapidfuzz.distance import Levenshtein

from transduce.core.types import Example, Prediction
from transduce.metrics.statistics import references
from transduce.metrics.suitability import one_word, unsegmented
from transduce.metrics.units import canonical


class ErrorRate:
    """Base class of error rates: insertions, deletions and substitutions in percent of the units of the references,
    over the whole corpus. A subclass defines the units.

    If there are several references, the one with the fewest edits counts, and its length goes into the denominator. If
    several are equally near, the shortest counts, which is stricter and does not depend on their order. If all these
    references are empty, the rate is 0 if all predictions are empty and 100 otherwise, like sacreBLEU's TER.
    """

    name: str
    unit: str
    higher_is_better = False
    needs_forcing = False

    @property
    def signature(self) -> str:
        return f"unit:{self.unit}|case:mixed|norm:nfc|refs:nearest|ties:shortest"

    def units(self, text: str) -> Sequence[str]:
        """The units of a text that are counted."""
        raise NotImplementedError

    def nearest(self, prediction: Prediction, example: Example) -> tuple[int, Sequence[str], Sequence[str]]:
        """The edit distance to the nearest reference (the shortest of equally near ones), the units of that reference,
        and the units of the prediction.
        """
        predicted = self.units(canonical(prediction.text))
        given = (self.units(canonical(text)) for text in references(example))
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
    """``cer``: edits in percent of the nearest reference's length in Unicode code points.

    Spaces count. Texts are compared in NFC.
    """

    name = "cer"
    unit = "character"

    def units(self, text: str) -> Sequence[str]:
        return text


class WordErrorRate(ErrorRate):
    """``wer``: edits in percent of the nearest reference's length in words between white space.

    The WER of the pronunciation literature is ``item_error``.
    """

    name = "wer"
    unit = "word"

    def units(self, text: str) -> Sequence[str]:
        return text.split()

    def misfit(self, references: Sequence[str]) -> str:
        if unsegmented(references) or one_word(references, 15):
            return "spaces do not separate their words; measure cer"
        return ""


class PhonemeErrorRate(WordErrorRate):
    """``per``: edits in percent of the nearest reference's length in phonemes: symbols between white space."""

    name = "per"
    unit = "symbol"

    def misfit(self, references: Sequence[str]) -> str:
        if one_word(references, 2):
            return "spaces do not separate their symbols; measure cer, or write phonemes with spaces"
        return ""
