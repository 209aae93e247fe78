"""ROUGE and SARI: the examples of their reference implementations, small cases by hand, and bad input."""

from __future__ import annotations

import sys

import pytest

from transduce.core.errors import MissingPackageError, UserError
from transduce.core.types import Example, Prediction
from transduce.metrics.base import evaluate, metric
from transduce.metrics.statistics import statistics

ROUGE = ("rouge1", "rouge2", "rougeL")


def single(name: str, prediction: str, *references: str, source: str = "") -> float:
    """The score of one prediction."""
    return evaluate([metric(name)], [Prediction(prediction)], [Example(source, references)])[name]


# --------------------------------------------------------------------- ROUGE


def test_the_cases_of_rouge_scores_own_tests() -> None:
    pytest.importorskip("rouge_score")
    assert single("rouge1", "testing", "testing one two") == pytest.approx(50)
    assert single("rouge2", "testing two", "testing one two") == 0
    assert single("rouge2", "testing one", "testing one two") == pytest.approx(100 * 2 / 3)
    assert single("rougeL", "testing two", "testing one two") == pytest.approx(80)
    assert single("rougeL", "two testing", "testing one two") == pytest.approx(40)


def test_the_best_reference_counts_and_examples_have_equal_weight() -> None:
    """The first example has 2 of 3 words, or 1 of 1 and 3; the second has all, in fewer words."""
    pytest.importorskip("rouge_score")
    examples = [Example("", ("a", "a b d")), Example("", ("d e",))]
    predictions = [Prediction("a b c"), Prediction("d e")]
    assert evaluate([metric("rouge1")], predictions, examples)["rouge1"] == pytest.approx(100 * (2 / 3 + 1) / 2)
    assert statistics([metric("rouge1")], predictions, examples)[0].rows_NK.tolist() == [
        [pytest.approx(2 / 3), 1],
        [1, 1],
    ]


def test_words_are_stemmed_and_lowercase() -> None:
    pytest.importorskip("rouge_score")
    assert single("rouge2", "Models learned!", "model LEARNS") == 100
    assert "stem:porter" in metric("rouge1").signature


@pytest.mark.parametrize("name", ROUGE)
def test_what_rouge_cannot_measure_is_refused(name: str) -> None:
    pytest.importorskip("rouge_score")
    with pytest.raises(UserError, match=f"{name} reads only the characters a-z and 0-9.*'猫坐'.*chrf"):
        single(name, "猫", "猫坐")
    assert single(name, "", "...") == 0
    with pytest.raises(UserError, match="no reference for the source 'text'"):
        metric(name).statistics(Prediction("a"), Example("text"))


def test_without_the_package_an_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    with pytest.raises(
        MissingPackageError, match=r"^rouge2 needs the package rouge-score: .*'transduce\[summaries\]'$"
    ):
        metric("rouge2")


# ---------------------------------------------------------------------- SARI


def test_the_example_of_easse() -> None:
    """The example is from EASSE's README. It has three references for each of two sentences."""
    examples = [
        Example(
            "About 95 species are currently accepted.",
            (
                "About 95 species are currently known.",
                "About 95 species are now accepted.",
                "95 species are now accepted.",
            ),
        ),
        Example("The cat perched on the mat.", ("The cat sat on the mat.", "The cat is on the mat.", "The cat sat.")),
    ]
    predictions = [Prediction("About 95 you now get in."), Prediction("Cat on mat.")]
    assert evaluate([metric("sari")], predictions, examples)["sari"] == pytest.approx(33.17472563619544, abs=1e-12)


def test_sari_by_hand() -> None:
    """For single words, all three operations are right. One bigram is added and one deleted. No text has a trigram."""
    assert single("sari", "a c", "a c", source="a b") == pytest.approx(100 * (3 + 2) / 12)


def test_what_some_references_keep_counts_in_part() -> None:
    """One of two references keeps "b": of two counts for it, the output keeps both, and one is right."""
    (found,) = statistics([metric("sari")], [Prediction("a b")], [Example("a b", ("a", "a b"))])
    assert found.rows_NK[0, :9].tolist() == [0, 0, 0, 3, 4, 3, 0, 0, 1]


def test_sari_needs_a_source() -> None:
    with pytest.raises(UserError, match="no source for the reference 'a': sari compares each output with its source"):
        single("sari", "a", "a", source=" ")
    with pytest.raises(UserError, match="no reference for the source 'text'"):
        metric("sari").statistics(Prediction("a"), Example("text"))
