"""The errors behind label metrics: precision and recall of each label, and confused pairs of labels."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from transduce.core.protocols import Metric
from transduce.core.types import Example, Prediction
from transduce.metrics.error_breakdown import error_rates
from transduce.metrics.labels import NOTHING, LabelMetric, entities, f1, label_pairs, nearest
from transduce.metrics.units import shown

MOST = 20  # most labels of a matrix


@dataclass(frozen=True)
class Found:
    """The counts of one label or type of entity: ``right`` ones, ``predicted`` ones, and those in the ``reference``.

    Precision, recall and F1 are in percent. They are NaN if their denominator is 0.
    """

    right: int
    predicted: int
    reference: int

    @property
    def precision(self) -> float:
        return 100.0 * self.right / self.predicted if self.predicted else math.nan

    @property
    def recall(self) -> float:
        return 100.0 * self.right / self.reference if self.reference else math.nan

    @property
    def f1(self) -> float:
        return 100.0 * f1(self.right, self.predicted, self.reference) if self.predicted or self.reference else math.nan

    def record(self) -> dict[str, float]:
        rates = {"precision": self.precision, "recall": self.recall, "f1": self.f1}
        return rates | {"predicted": self.predicted, "reference": self.reference}


@dataclass(frozen=True)
class LabelBreakdown:
    """The counts of each label of a corpus, the most frequent in the references first.

    ``unit`` is "label" or "entity"; entities are counted by type. ``confusions`` count pairs (reference label,
    predicted label) at the same place, including equal pairs. There "" stands for a missing label. Entities have no
    place, so they have no confusions.
    """

    unit: str
    labels: dict[str, Found]
    confusions: Counter[tuple[str, str]]

    @property
    def micro(self) -> Found:
        """The counts summed over all labels.

        If each place has a label on both sides, precision, recall and F1 of the sum equal the accuracy.
        """
        every = list(self.labels.values())
        return Found(sum(f.right for f in every), sum(f.predicted for f in every), sum(f.reference for f in every))

    @property
    def macro(self) -> dict[str, float]:
        """Precision, recall and F1 in percent by name, each averaged over all labels of the references or predictions
        with equal weight. A precision or recall that is NaN counts as 0, as in scikit-learn. Without labels they
        are NaN.
        """
        each = [found.record() for found in self.labels.values()]
        return {name: _mean([one[name] for one in each]) for name in ("precision", "recall", "f1")}

    def record(self) -> dict[str, object]:
        """The breakdown for JSON. If there are confusions, it has their matrix, with a row per reference label and a
        column per predicted label, in the order of ``labels``. Missing labels are not in the matrix.
        """
        labels = list(self.labels)
        matrix = [[self.confusions[row, column] for column in labels] for row in labels]
        return {
            "unit": self.unit,
            "labels": {label: found.record() for label, found in self.labels.items()},
            "micro": self.micro.record(),
            "macro": self.macro,
            **({"matrix": matrix} if self.confusions else {}),
        }

    def rows(self) -> list[list[str]]:
        """The cells of a table: a head, a row per label, and rows for the micro and the macro average."""
        macro, micro = self.macro, self.micro
        return [
            [self.unit, "precision", "recall", "F1", "reference", "predicted"],
            *([shown(label), *_cells(found)] for label, found in self.labels.items()),
            ["all (micro)", *_cells(micro)],
            ["mean (macro)", *(f"{macro[name]:.2f}" for name in ("precision", "recall", "f1")), "", ""],
        ]

    def matrix(self, most: int = MOST) -> list[list[str]]:
        """The cells of the confusion matrix of the ``most`` labels that are most frequent in the references, with a
        head and a first column of labels.

        Rows are reference labels, columns are predicted labels, and a count of 0 is "". Empty if there are no
        confusions, as for entities.
        """
        if not self.confusions:
            return []
        labels = list(self.labels)[:most]
        counts = ([f"{self.confusions[row, column] or ''}" for column in labels] for row in labels)
        head = ["reference ↓ predicted →", *map(shown, labels)]
        return [head, *([shown(label), *row] for label, row in zip(labels, counts, strict=True))]


def breakable(metrics: Sequence[Metric]) -> bool:
    """Checks that an error breakdown is possible. Returns True if at least one metric supports it, otherwise raises
    UserError; it never returns False.
    """
    return any(isinstance(metric, LabelMetric) for metric in metrics) or bool(error_rates(metrics))


def label_breakdowns(
    metrics: Sequence[Metric], predictions: Sequence[Prediction], examples: Sequence[Example]
) -> list[LabelBreakdown]:
    """One breakdown for each unit that the metrics count: "label", "entity", or both, in the order of the metrics.
    Empty if no metric counts labels or entities. Predictions are in the order of the examples.
    """
    units = dict.fromkeys(metric.unit for metric in metrics if isinstance(metric, LabelMetric))
    pairs = list(zip(predictions, examples, strict=True))
    return [_of_entities(pairs) if unit == "entity" else _of_labels(pairs) for unit in units]


def _of_labels(pairs: Sequence[tuple[Prediction, Example]]) -> LabelBreakdown:
    confusions = Counter(pair for each in pairs for pair in label_pairs(*each))
    right, predicted, reference = Counter[str](), Counter[str](), Counter[str]()
    for (wanted, given), count in confusions.items():
        right[wanted] += count if wanted == given else 0
        reference[wanted] += count
        predicted[given] += count
    return LabelBreakdown("label", _ranked(right, predicted, reference), confusions)


def _of_entities(pairs: Sequence[tuple[Prediction, Example]]) -> LabelBreakdown:
    right, predicted, reference = Counter[str](), Counter[str](), Counter[str]()
    for prediction, example in pairs:
        wanted, given = (entities(text) for text in nearest(prediction, example))
        for counter, found in ((right, wanted & given), (predicted, given), (reference, wanted)):
            counter.update(kind for _, _, kind in found)
    return LabelBreakdown("entity", _ranked(right, predicted, reference), Counter())


def _ranked(right: Counter[str], predicted: Counter[str], reference: Counter[str]) -> dict[str, Found]:
    """The counts of each label, the most frequent in the references first. Missing labels are left out."""
    labels = sorted({*predicted, *reference} - {NOTHING}, key=lambda label: (-reference[label], label))
    return {label: Found(right[label], predicted[label], reference[label]) for label in labels}


def _mean(rates: Sequence[float]) -> float:
    """The mean, in which NaN counts as 0; NaN without any rate."""
    return sum(0.0 if math.isnan(rate) else rate for rate in rates) / len(rates) if rates else math.nan


def _cells(found: Found) -> list[str]:
    rates = (f"{rate:.2f}" for rate in (found.precision, found.recall, found.f1))
    return [*rates, f"{found.reference:,}", f"{found.predicted:,}"]
