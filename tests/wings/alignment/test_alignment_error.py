"""Metrics of word alignments, against values that were computed by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from transduce.core.errors import UserError
from transduce.core.types import Example, Prediction
from transduce.metrics.base import evaluate, metric
from transduce.metrics.significance import Resampling
from transduce.wings.alignment.links import Gold, Links
from transduce.wings.alignment.metrics import LINK_METRICS, link_counts, link_statistics

# Pair 1: A = {0-0, 1-1, 2-1, 3-3}, S = {0-0, 1-2}, P = S + {1-1, 3-3}. A and S: 1. A and P: 3.
# Pair 2: A = {0-1}, S = {0-1, 1-0, 2-2}. A and S: 1. A and P: 1.
# Pair 3: no link is predicted. The only gold link is a possible one, which need not be found.
FOUND = ["0-0 1-1 2-1 3-3", "0-1", ""]
GOLD = ["0-0 1p1 1-2 3p3", "0-1 1-0 2-2", "0p0"]
PRECISION, RECALL = 4 / 5, 2 / 5
BY_HAND = {
    "link_precision": 100 * PRECISION,
    "link_recall": 100 * RECALL,
    "link_f1": 200 * PRECISION * RECALL / (PRECISION + RECALL),
    "aer": 100 * (1 - (2 + 4) / (5 + 5)),
}


def test_counts_and_scores_by_hand() -> None:
    found, gold = Links.read(FOUND), Gold.read(GOLD)
    assert link_counts(found, gold).tolist() == [[1, 3, 4, 2], [1, 1, 1, 3], [0, 0, 0, 0]]
    assert {each.name: each.score for each in link_statistics(found, gold)} == pytest.approx(BY_HAND)


def test_the_same_scores_from_texts() -> None:
    predictions, examples = [Prediction(text) for text in FOUND], [Example("", (text,)) for text in GOLD]
    found = evaluate([metric(name) for name in BY_HAND], predictions, examples)
    assert found == pytest.approx(BY_HAND)


def test_all_found_and_nothing_to_find() -> None:
    gold = Gold.read(["0-0 1p1"])
    scores = [each.score for each in link_statistics(gold.possible, gold)]
    assert scores == [100.0, 100.0, 100.0, 0.0]
    nothing = Links.read([""])
    assert all(math.isnan(each.score) for each in link_statistics(nothing, Gold.read([""])))
    precision, *others = [each.score for each in link_statistics(nothing, gold)]
    assert (math.isnan(precision), others) == (True, [0.0, 0.0, 100.0])


def test_intervals_resample_sentence_pairs() -> None:
    same = link_statistics(Links.read(FOUND[:1] * 9), Gold.read(GOLD[:1] * 9))
    for each in same:
        assert Resampling(50).interval(each) == pytest.approx((each.score, each.score))
    mixed = link_statistics(Links.read(FOUND * 9), Gold.read(GOLD * 9))[-1]
    low, high = Resampling(200).interval(mixed)
    assert low < mixed.score < high


def test_possible_links_are_gold_alone() -> None:
    with pytest.raises(UserError, match="1p2 is a possible link"):
        metric("aer").statistics(Prediction("1p2"), Example("", ("0-0",)))
    assert np.isfinite([metric(each.name).score([1, 1, 2, 2]) for each in LINK_METRICS]).all()
