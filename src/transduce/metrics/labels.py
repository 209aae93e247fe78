"""Metrics of labels: each label, each class of labels, and the entities that labels mark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest

from transduce.core.errors import UserError
from transduce.core.types import SPECIALS, UNK, Example, Prediction
from transduce.metrics.statistics import references
from transduce.metrics.units import canonical

NOTHING = ""  # stands for a missing label on either side
PREFIXES = ("B", "I", "E", "S")


class LabelMetric:
    """Base class of metrics of labels, which white space separates. A missing label counts as wrong, and so does an
    extra one.

    If there are several references, the one with the fewest wrong labels counts, the first of equally good ones.
    """

    name: str
    unit = "label"
    higher_is_better = True
    needs_forcing = False

    @property
    def signature(self) -> str:
        return f"unit:{self.unit}|missing:wrong|refs:nearest"


class Accuracy(LabelMetric):
    """``accuracy``: the percentage of right labels. A missing or an extra label is one more label that is wrong.
    Without any label the score is NaN.
    """

    name = "accuracy"

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        pairs = label_pairs(prediction, example)
        return float(sum(one == other for one, other in pairs)), float(len(pairs))

    def score(self, total: Sequence[float]) -> float:
        right, labels = total
        return 100.0 * right / labels if labels else math.nan


class MacroF1(LabelMetric):
    """``macro_f1``: the F1 of each label in percent, averaged over all labels of the references or
    predictions.

    F1 is 2 right / (predicted + reference). Rare labels count as much as frequent ones. Without any label the score is
    NaN. A row of statistics has right, predicted and reference for each label seen so far, so later rows can be longer.
    """

    name = "macro_f1"

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    @property
    def signature(self) -> str:
        return f"{super().signature}|average:macro"

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels seen so far, in the order of the statistics, which have three columns for each."""
        return tuple(self._places)

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        pairs = label_pairs(prediction, example)
        for label in (label for pair in pairs for label in pair if label != NOTHING):
            self._places.setdefault(label, len(self._places))
        counts = [0.0] * (3 * len(self._places))
        for reference, predicted in pairs:
            if reference == predicted:
                counts[3 * self._places[reference]] += 1
            for kind, label in ((1, predicted), (2, reference)):
                if label != NOTHING:
                    counts[3 * self._places[label] + kind] += 1
        return counts

    def score(self, total: Sequence[float]) -> float:
        each = [f1(*total[place : place + 3]) for place in range(0, len(total), 3) if any(total[place : place + 3])]
        return 100.0 * sum(each) / len(each) if each else math.nan


class EntityF1(LabelMetric):
    """``entity_f1``: F1 in percent of whole entities (Tjong Kim Sang and De Meulder 2003), of labels O, B-type, I-type,
    E-type and S-type.

    An entity is right if both ends and the type are right. As in conlleval, an entity begins at B or S. It also begins
    at I or E after O, E, S or a label of another type. It ends after E or S. So IOB1, BIO and IOBES all work. <unk>,
    which an untrained model may write, counts as O. If neither side has an entity, the score is NaN. Raises UserError
    for other labels.
    """

    name = "entity_f1"
    unit = "entity"

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        reference, predicted = (entities(text) for text in nearest(prediction, example))
        return float(len(reference & predicted)), float(len(predicted)), float(len(reference))

    def score(self, total: Sequence[float]) -> float:
        return 100.0 * f1(*total) if any(total) else math.nan


def f1(right: float, predicted: float, reference: float) -> float:
    """The harmonic mean of precision and recall, in [0, 1]; 0 if nothing is right."""
    return 2 * right / (predicted + reference) if right else 0.0


def label_pairs(prediction: Prediction, example: Example) -> list[tuple[str, str]]:
    """For each place in order, the label of the nearest reference and the predicted one; "" for a missing label."""
    return _side_by_side(*nearest(prediction, example))


def nearest(prediction: Prediction, example: Example) -> tuple[str, str]:
    """The reference with the fewest wrong labels, and the prediction, as texts. The first of equally good references
    counts.
    """
    given, predicted = [*map(canonical, references(example))], canonical(prediction.text)
    if len(given) > 1:
        wrong = [sum(one != other for one, other in _side_by_side(text, predicted)) for text in given]
        return given[wrong.index(min(wrong))], predicted
    return given[0], predicted


def _side_by_side(reference: str, predicted: str) -> list[tuple[str, str]]:
    return list(zip_longest(reference.split(), predicted.split(), fillvalue=NOTHING))


def entities(labels: str) -> set[tuple[int, int, str]]:
    """The entities that labels mark, as (index of the first label, index after the last label, type). ``EntityF1`` has
    the rules.

    Raises UserError for a label that is neither <unk> nor O nor B-, I-, E- or S- with a type.
    """
    found: set[tuple[int, int, str]] = set()
    begin, last, kind = 0, "O", ""
    tags = ["O" if tag == SPECIALS[UNK] else tag for tag in labels.split()]
    for place, tag in enumerate([*tags, "O"]):
        prefix, _, of = tag.partition("-")
        if tag != "O" and (prefix not in PREFIXES or not of):
            raise UserError(
                f"{tag!r} marks no entity: entity_f1 reads O, B-type, I-type, E-type and S-type; for other labels "
                "measure accuracy or macro_f1"
            )
        begins = tag != "O" and (prefix in "BS" or last in "OES" or of != kind)
        if last != "O" and (begins or tag == "O"):
            found.add((begin, place, kind))
        begin = place if begins else begin
        last, kind = prefix, of
    return found
