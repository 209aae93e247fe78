"""Metrics of corrections: precision, recall and F0.5 of the words that a system changes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rapidfuzz.distance import Levenshtein

from transduce.core.errors import UserError
from transduce.core.types import Example, Prediction
from transduce.metrics.statistics import references
from transduce.metrics.units import canonical

Edit = tuple[str, int, str]


def edits(before: str, after: str) -> set[Edit]:
    """The changes that turn one text into another, by the least number of edits between their words, which white space
    divides: the kind, the place in ``before``, and the new word, which is empty for a deletion.
    """
    old, new = canonical(before).split(), canonical(after).split()
    changes = Levenshtein.editops(old, new)
    return {(op.tag, op.src_pos, "" if op.tag == "delete" else new[op.dest_pos]) for op in changes}


class EditMetric:
    """Base class of metrics of corrections. The source has errors, and a reference has none. An edit is right if the
    reference makes the same edit of the source. Of several references, the one with the best F0.5 counts.

    A row of statistics has the numbers of right edits, of edits of the output, and of edits of the reference. Raises
    UserError for an example without a source.
    """

    name: str
    higher_is_better = True
    needs_forcing = False
    signature = "unit:word|case:mixed|norm:nfc"

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        if example.source is None:
            raise UserError(f"{self.name} compares an output with its source, and an example has no source")
        found = edits(example.source, prediction.text)
        every = [edits(example.source, reference) for reference in references(example)]
        rows = [(float(len(found & wanted)), float(len(found)), float(len(wanted))) for wanted in every]
        return max(rows, key=lambda row: _f05(row, nothing=100.0))


class EditPrecision(EditMetric):
    """``edit_precision``: the percentage of a system's edits of words that are right; NaN without an edit."""

    name = "edit_precision"

    def score(self, total: Sequence[float]) -> float:
        right, found, _ = total
        return 100.0 * right / found if found else math.nan


class EditRecall(EditMetric):
    """``edit_recall``: the percentage of the reference's edits of words that a system makes; NaN without one."""

    name = "edit_recall"

    def score(self, total: Sequence[float]) -> float:
        right, _, wanted = total
        return 100.0 * right / wanted if wanted else math.nan


class EditF05(EditMetric):
    """``edit_f05``: F0.5 of edits of words, 1.25 P R / (0.25 P + R), which counts precision P more than recall R (Ng et
    al. 2014, section 4). It is 0 if no edit is right, and NaN if neither side has an edit.
    """

    name = "edit_f05"

    def score(self, total: Sequence[float]) -> float:
        return _f05(total, nothing=math.nan)


def _f05(counts: Sequence[float], nothing: float) -> float:
    """F0.5 in percent, of the numbers of right edits, edits, and edits that were wanted; ``nothing`` without any."""
    right, found, wanted = counts
    return 125.0 * right / (found + 0.25 * wanted) if found or wanted else nothing
