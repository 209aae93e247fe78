"""The errors behind an error rate: the number of each kind, and confused pairs of units."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypeVar

from rapidfuzz.distance import Levenshtein

from transduce.core.config import Table
from transduce.core.errors import UserError
from transduce.core.protocols import Metric
from transduce.core.types import Example, Prediction
from transduce.metrics.error_rates import ErrorRate
from transduce.metrics.units import columns, padded, shown

T = TypeVar("T")
MOST = 20  # most errors shown of each kind


@dataclass(frozen=True)
class ErrorBreakdown:
    """The errors of a corpus behind one error rate, with the frequency of each.

    ``substitutions`` count pairs (reference unit, predicted unit), ``deletions`` missing units, and ``insertions``
    extra units. ``length`` is the number of units of the nearest references; the rate divides the number of all errors
    by it. If several smallest sets of edits exist, one of them is counted.
    """

    metric: str
    unit: str
    length: int
    substitutions: Counter[tuple[str, str]]
    deletions: Counter[str]
    insertions: Counter[str]

    @property
    def counts(self) -> dict[str, int]:
        """The number of ``right`` units, and of ``substitutions``, ``deletions`` and ``insertions``, by these names."""
        substitutions, deletions = self.substitutions.total(), self.deletions.total()
        return {
            "right": self.length - substitutions - deletions,
            "substitutions": substitutions,
            "deletions": deletions,
            "insertions": self.insertions.total(),
        }

    def record(self, most: int = MOST) -> Table:
        """The breakdown for JSON: the counts and, for each kind of error, the ``most`` most frequent ones."""
        return {
            "unit": self.unit,
            "length": self.length,
            **self.counts,
            "substituted": [
                {"reference": reference, "predicted": predicted, "count": count}
                for (reference, predicted), count in _frequent(self.substitutions, most)
            ],
            "deleted": [{"reference": unit, "count": count} for unit, count in _frequent(self.deletions, most)],
            "inserted": [{"predicted": unit, "count": count} for unit, count in _frequent(self.insertions, most)],
        }

    def lines(self, most: int = MOST) -> list[str]:
        """The breakdown for the terminal: a line of counts, then three lists side by side of the ``most`` most frequent
        errors of each kind. A kind without errors has no list.
        """
        counts = self.counts
        edits = sum(counts.values()) - counts["right"]
        kinds = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        head = f"{self.metric}: {edits:,} errors, {self.length:,} {self.unit}s in the references: {kinds}"
        pairs = {f"{shown(one)} → {shown(other)}": count for (one, other), count in _frequent(self.substitutions, most)}
        lists = {
            "substituted": pairs,
            "deleted": {shown(unit): count for unit, count in _frequent(self.deletions, most)},
            "inserted": {shown(unit): count for unit, count in _frequent(self.insertions, most)},
        }
        blocks = [_block(name, counted) for name, counted in lists.items() if counted]
        widths = [max(map(columns, block)) for block in blocks]
        rows = (
            "    ".join(padded(cell, width) for cell, width in zip(cells, widths, strict=True)).rstrip()
            for cells in zip_longest(*blocks, fillvalue="")
        )
        return [head, *(f"  {row}" for row in rows)]


def error_rates(metrics: Sequence[Metric]) -> list[ErrorRate]:
    """The metrics that are error rates, in order. Raises UserError if there is none."""
    rates = [metric for metric in metrics if isinstance(metric, ErrorRate)]
    if not rates:
        raise UserError(
            f"{', '.join(metric.name for metric in metrics) or 'no metric'}: no error rate, whose errors could be told "
            "apart; measure cer, wer or per"
        )
    return rates


def error_breakdown(rate: ErrorRate, predictions: Sequence[Prediction], examples: Sequence[Example]) -> ErrorBreakdown:
    """The errors behind an error rate, against the nearest reference of each example. Predictions are in the order of
    the examples, one for each.
    """
    length = 0
    substitutions: Counter[tuple[str, str]] = Counter()
    deletions: Counter[str] = Counter()
    insertions: Counter[str] = Counter()
    for prediction, example in zip(predictions, examples, strict=True):
        _, reference, predicted = rate.nearest(prediction, example)
        length += len(reference)
        for edit in Levenshtein.editops(reference, predicted):
            if edit.tag == "replace":
                substitutions[reference[edit.src_pos], predicted[edit.dest_pos]] += 1
            elif edit.tag == "delete":
                deletions[reference[edit.src_pos]] += 1
            else:
                insertions[predicted[edit.dest_pos]] += 1
    return ErrorBreakdown(rate.name, rate.unit, length, substitutions, deletions, insertions)


def _frequent(counted: Counter[T], most: int) -> list[tuple[T, int]]:
    """The ``most`` most frequent items with their counts, the most frequent first. Equally frequent ones are sorted, so
    the corpus order has no influence.
    """
    return sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:most]


def _block(name: str, counted: Mapping[str, int]) -> list[str]:
    """One column of the table: its head, then a count and its item per line."""
    wide = len(f"{max(counted.values()):,}")
    return [" " * (wide + 2) + name, *(f"{count:>{wide},}  {unit}" for unit, count in counted.items())]
