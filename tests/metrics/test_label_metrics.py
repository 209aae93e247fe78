"""Metrics of labels, against counts by hand and by brute force."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Sequence
from typing import Any

import pytest

from transduce.core.types import Example, Prediction
from transduce.metrics.base import evaluate, metric
from transduce.metrics.confusions import LabelBreakdown, breakable, label_breakdowns
from transduce.metrics.labels import entities
from transduce.metrics.significance import Resampling
from transduce.metrics.statistics import Statistics, statistics

REFERENCES = ["A B A", "A", "C A"]
PREDICTIONS = ["A A A", "B", "C"]


def corpus(references: Sequence[str], predictions: Sequence[str]) -> tuple[list[Prediction], list[Example]]:
    return [*map(Prediction, predictions)], [Example("words", (reference,)) for reference in references]


def scores(names: Sequence[str], references: Sequence[str], predictions: Sequence[str]) -> dict[str, float]:
    return evaluate([metric(name) for name in names], *corpus(references, predictions))


def breakdown(name: str, references: Sequence[str], predictions: Sequence[str]) -> LabelBreakdown:
    (found,) = label_breakdowns([metric(name), metric("exact")], *corpus(references, predictions))
    return found


def test_labels_one_by_one() -> None:
    """The label A has 2 right, 3 predicted and 4 true; B has 0, 1 and 1; C has 1, 1 and 1. One A is missing."""
    found = scores(["accuracy", "macro_f1"], REFERENCES, PREDICTIONS)
    assert found == {"accuracy": pytest.approx(50.0), "macro_f1": pytest.approx(100 * (4 / 7 + 0 + 1) / 3)}
    assert scores(["accuracy", "macro_f1"], ["A"], ["A B"])["accuracy"] == 50.0  # a label too many is wrong too
    assert all(map(math.isnan, scores(["accuracy", "macro_f1", "entity_f1"], [""], [""]).values()))
    assert metric("macro_f1").signature == "unit:label|missing:wrong|refs:nearest|average:macro"


def test_the_nearest_reference_counts() -> None:
    example = Example("words", ("A B", "B B", "B A"))
    for name in ("accuracy", "macro_f1"):
        assert evaluate([metric(name)], [Prediction("B A")], [example])[name] == 100.0
    (found,) = label_breakdowns([metric("accuracy")], [Prediction("A A")], [example])
    assert found.confusions == {("A", "A"): 1, ("B", "A"): 1}  # the first of two equally near references


def test_labels_met_later_are_counted_from_there_on() -> None:
    """One metric measures two systems. A label that only the second system writes counts 0 for the first."""
    macro = metric("macro_f1")
    ours, theirs = (statistics([macro], *corpus(["A A", "B"], texts))[0] for texts in (["A A", "B"], ["A C", "D"]))
    assert (ours.width, theirs.width) == (6, 12)
    assert (ours.score, theirs.score) == (100.0, pytest.approx(100 * (2 / 3) / 4))
    difference = Resampling(50, 50).difference(ours, theirs)
    assert difference.value == pytest.approx(ours.score - theirs.score)
    assert Resampling(50, 50).difference(theirs, ours).value == -difference.value


def test_two_metrics_that_met_labels_in_different_orders_are_not_compared() -> None:
    """If the orders differ, the same statistic belongs to different labels. If they agree, it belongs to the same
    label.
    """

    def met(*texts: str) -> Statistics:
        return statistics([metric("macro_f1")], *corpus(["Noun Noun", "Verb"], texts))[0]

    with pytest.raises(ValueError, match=r"two metrics 'macro_f1' .* 'C' is to one what 'Verb' is to the other: take"):
        Resampling(50, 50).difference(met("Noun C", "Verb"), met("Noun Noun", "C"))
    assert Resampling(50, 50).difference(met("Noun Noun", "Verb"), met("Noun Noun", "C")).value > 0


def test_the_breakdown() -> None:
    found = breakdown("accuracy", REFERENCES, PREDICTIONS)
    assert list(found.labels) == ["A", "B", "C"]
    a = found.labels["A"]
    assert (a.right, a.predicted, a.reference) == (2, 3, 4)
    assert (a.precision, a.recall, a.f1) == (pytest.approx(200 / 3), 50.0, pytest.approx(400 / 7))
    assert found.micro.recall == 50.0
    assert found.macro["f1"] == pytest.approx(scores(["macro_f1"], REFERENCES, PREDICTIONS)["macro_f1"])
    assert found.confusions == {("A", "A"): 2, ("B", "A"): 1, ("A", "B"): 1, ("C", "C"): 1, ("A", ""): 1}
    assert found.matrix() == [
        ["reference ↓ predicted →", "A", "B", "C"],
        ["A", "2", "1", ""],
        ["B", "1", "", ""],
        ["C", "", "", "1"],
    ]
    assert found.matrix(1) == [["reference ↓ predicted →", "A"], ["A", "2"]]
    assert found.rows()[1] == ["A", "66.67", "50.00", "57.14", "4", "3"]
    record = json.loads(json.dumps(found.record()))
    assert record["matrix"] == [[2, 1, 0], [1, 0, 0], [0, 0, 1]]
    assert record["labels"]["C"] == {"precision": 100, "recall": 100, "f1": 100, "predicted": 1, "reference": 1}


def test_a_rate_without_a_denominator_counts_0_in_the_mean() -> None:
    """B is never predicted, and C never true."""
    found = breakdown("accuracy", ["A B"], ["A C"])
    assert math.isnan(found.labels["B"].precision)
    assert math.isnan(found.labels["C"].recall)
    assert found.macro == {name: pytest.approx(100 / 3) for name in ("precision", "recall", "f1")}


# ------------------------------------------------------------------ entities

TAGS = ["O", "B-x", "I-x", "B-y", "I-y"]


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ("O O", set()),
        ("B-x I-x O B-y", {(0, 2, "x"), (3, 4, "y")}),
        ("I-x I-x O", {(0, 2, "x")}),  # IOB1
        ("I-x B-x I-x", {(0, 1, "x"), (1, 3, "x")}),
        ("B-x I-y", {(0, 1, "x"), (1, 2, "y")}),
        ("B-x E-x S-x S-y I-y", {(0, 2, "x"), (2, 3, "x"), (3, 4, "y"), (4, 5, "y")}),
        ("B-a-b I-a-b", {(0, 2, "a-b")}),
        ("<unk> I-x <unk>", {(1, 2, "x")}),
    ],
)
def test_entities(labels: str, found: set[Any]) -> None:
    assert entities(labels) == found


def begins(before: str, tag: str) -> bool:
    """conlleval's rule for BIO in other words: an entity begins at B, and at an I that continues no entity."""
    return tag != "O" and (tag[0] == "B" or before == "O" or before[1:] != tag[1:])


def brute(tags: Sequence[str]) -> set[tuple[int, int, str]]:
    """All entities of a sentence, found by a test of every span."""
    closed = ["O", *tags, "O"]
    return {
        (i, j, tags[i][2:])
        for i, j in itertools.combinations(range(len(tags) + 1), 2)
        if begins(closed[i], tags[i])
        and all(tag != "O" for tag in tags[i:j])
        and not any(begins(closed[k], tags[k]) for k in range(i + 1, j))
        and (closed[j + 1] == "O" or begins(closed[j], closed[j + 1]))
    }


def test_entity_f1_is_that_of_all_stretches() -> None:
    draw = random.Random(1)
    both = [[draw.choices(TAGS, k=6) for _ in range(60)] for _ in range(2)]
    right = predicted = reference = 0
    for gold, given in zip(*both, strict=True):
        assert entities(" ".join(gold)) == brute(gold)
        right += len(brute(gold) & brute(given))
        predicted, reference = predicted + len(brute(given)), reference + len(brute(gold))
    texts = [[" ".join(tags) for tags in side] for side in both]
    assert right
    assert scores(["entity_f1"], *texts)["entity_f1"] == pytest.approx(200 * right / (predicted + reference))
    found = breakdown("entity_f1", *texts)
    assert (found.micro.right, found.micro.predicted, found.micro.reference) == (right, predicted, reference)
    assert set(found.labels) == {"x", "y"}
    assert found.matrix() == []
    assert "matrix" not in found.record()


@pytest.mark.parametrize("tag", ["NOUN", "B", "X-place", "B-", "o"])
def test_labels_that_mark_no_entity_are_told(tag: str) -> None:
    with pytest.raises(ValueError, match=rf"'{tag}' marks no entity: .*measure accuracy or macro_f1"):
        entities(f"O {tag}")


# ------------------------------------------------------------------ display


def test_breakable() -> None:
    assert breakable([metric("accuracy")])
    assert breakable([metric("wer")])
    with pytest.raises(ValueError, match="exact: no error rate"):
        breakable([metric("exact")])
