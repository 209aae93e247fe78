"""The parts of an error rate: counts that add up to the rate, and edits that lead from reference to output."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.core.types import Example, Prediction
from transduce.metrics.base import evaluate, metric
from transduce.metrics.error_breakdown import ErrorBreakdown, error_breakdown, error_rates
from transduce.metrics.error_rates import WordErrorRate
from transduce.metrics.units import columns

lines = st.lists(st.sampled_from(["a", "b", "ab", "é"]), max_size=6).map(" ".join)
corpora = st.lists(st.tuples(lines, st.lists(lines, min_size=1, max_size=3)), min_size=1, max_size=6)


def broken_down(*corpus: tuple[str, str], name: str = "wer") -> ErrorBreakdown:
    """The error breakdown of pairs of a prediction and its reference."""
    (rate,) = error_rates([metric(name)])
    return error_breakdown(rate, [Prediction(text) for text, _ in corpus], [Example("", (ref,)) for _, ref in corpus])


@pytest.mark.parametrize("name", ["cer", "wer", "per"])
@settings(max_examples=60, deadline=None)
@given(corpus=corpora)
def test_the_counts_are_the_rate(name: str, corpus: list[tuple[str, list[str]]]) -> None:
    predictions = [Prediction(text) for text, _ in corpus]
    examples = [Example("", tuple(references)) for _, references in corpus]
    rate = metric(name)
    (found,) = (error_breakdown(each, predictions, examples) for each in error_rates([metric("bleu"), rate]))
    counts = found.counts
    edits = counts["substitutions"] + counts["deletions"] + counts["insertions"]
    assert rate.score([edits, found.length]) == pytest.approx(evaluate([rate], predictions, examples)[name])
    assert counts["right"] + counts["substitutions"] + counts["deletions"] == found.length


@settings(max_examples=100, deadline=None)
@given(prediction=lines, reference=lines)
def test_the_edits_lead_from_the_reference_to_the_prediction(prediction: str, reference: str) -> None:
    found = broken_down((prediction, reference))
    units = Counter(reference.split())
    units.subtract(unit for (unit, _), count in found.substitutions.items() for _ in range(count))
    units.update(unit for (_, unit), count in found.substitutions.items() for _ in range(count))
    units.subtract(found.deletions)
    units.update(found.insertions)
    assert units == Counter(prediction.split())
    assert all(one != other for one, other in found.substitutions)


def test_each_example_needs_a_prediction() -> None:
    with pytest.raises(ValueError, match="longer"):
        error_breakdown(WordErrorRate(), [Prediction("a")], [Example("", ("a",))] * 2)


def test_the_columns_of_a_text() -> None:
    assert [columns(text) for text in ("", "ab", "e\u0301", "猫a")] == [0, 2, 1, 3]


def test_of_several_references_the_nearest() -> None:
    rate = WordErrorRate()
    for references in [("a b c", "x y"), ("x y", "a b c")]:
        found = error_breakdown(rate, [Prediction("a b d")], [Example("", references)])
        assert (found.length, found.substitutions) == (3, {("c", "d"): 1})
    for references in [
        ("a b", "a c"),
        ("a c", "a b"),
    ]:  # equally near, equally long: the choice does not depend on the order
        found = error_breakdown(rate, [Prediction("a d")], [Example("", references)])
        assert found.substitutions == {("b", "d"): 1}


CORPUS = [("AH T N", "IH T"), ("AH D", "IH T D"), ("K AH", "K IH"), ("S", "S Z")]


def test_the_most_frequent_errors_first() -> None:
    found = broken_down(*CORPUS, name="per")
    assert found.substitutions == {("IH", "AH"): 3}
    assert found.lines() == [
        "per: 6 errors, 9 symbols in the references: 4 right, 3 substitutions, 2 deletions, 1 insertions",
        "     substituted       deleted       inserted",
        "  3  IH → AH        1  T          1  N",
        "                    1  Z",
    ]
    assert found.lines(1)[2:] == ["  3  IH → AH        1  T          1  N"]


def test_a_record_for_json() -> None:
    record = broken_down(*CORPUS, name="per").record(1)
    assert json.loads(json.dumps(record)) == {
        "unit": "symbol",
        "length": 9,
        "right": 4,
        "substitutions": 3,
        "deletions": 2,
        "insertions": 1,
        "substituted": [{"reference": "IH", "predicted": "AH", "count": 3}],
        "deleted": [{"reference": "T", "count": 1}],
        "inserted": [{"predicted": "N", "count": 1}],
    }


def test_nothing_wrong_is_one_line() -> None:
    assert broken_down(("a b", "a b")).lines() == [
        "wer: 0 errors, 2 words in the references: 2 right, 0 substitutions, 0 deletions, 0 insertions"
    ]


def test_spaces_are_seen_and_wide_characters_line_up() -> None:
    found = broken_down(("ab", "a b"), ("x", "猫x"), ("\u0301", ""), ("y", "猫"), name="cer")
    assert found.lines()[1:] == [
        "     substituted       deleted       inserted",
        "  1  猫 → y         1  ␣          1  ◌\u0301",
        "                    1  猫",
    ]


def test_without_an_error_rate_there_is_nothing_to_tell() -> None:
    with pytest.raises(ValueError, match=r"bleu, exact: no error rate.*; measure cer, wer or per"):
        error_rates([metric("bleu"), metric("exact")])
