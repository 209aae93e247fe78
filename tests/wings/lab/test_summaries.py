"""The sentences at the top of reports follow the data."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from transduce.metrics.calibration import Calibration, ConfidenceBin
from transduce.metrics.confusions import LabelBreakdown
from transduce.metrics.error_breakdown import ErrorBreakdown
from transduce.wings.lab.reports.summaries import (
    calibration_sentence,
    confusion_sentence,
    errors_sentence,
    in_ten,
    vowel,
)


def errors(**kinds: Any) -> ErrorBreakdown:
    empty: dict[str, Any] = {"substitutions": Counter(), "deletions": Counter(), "insertions": Counter()}
    return ErrorBreakdown("per", "phoneme", 1000, **(empty | kinds))


def test_most_errors_are_vowels_or_consonants_or_a_kind_of_edit() -> None:
    vowels = errors(substitutions=Counter({("AH0", "IH0"): 60, ("T", "D"): 30}), deletions=Counter({"EH1": 10}))
    assert errors_sentence(vowels) == "7 of 10 errors are vowels, most often AH0 → IH0 (60 times)."
    consonants = errors(substitutions=Counter({("θ", "t"): 80, ("ə", "e"): 20}))
    assert errors_sentence(consonants) == "8 of 10 errors are consonants, most often θ → t (80 times)."
    mixed = errors(deletions=Counter({"a": 40, "t": 40}), insertions=Counter({"s": 20}))
    assert errors_sentence(mixed) == "6 of 10 errors are consonants."
    even = errors(deletions=Counter({"a": 50, "t": 30}), insertions=Counter({"s": 20}))
    assert errors_sentence(even) == "8 of 10 errors are missing phonemes."
    assert errors_sentence(errors()) == "No phoneme is wrong."


def test_words_are_no_vowels() -> None:
    found = ErrorBreakdown("wer", "word", 100, Counter({("a", "the"): 30}), Counter(), Counter())
    assert errors_sentence(found) == "All 30 errors are substituted words, most often a → the (30 times)."


@pytest.mark.parametrize(("unit", "expected"), [("ɑː", True), ("É", True), ("AY2", True), ("tʃ", False), ("7", None)])
def test_vowels_of_letters_and_phonemes(unit: str, expected: bool | None) -> None:
    assert vowel(unit) is expected


def calibrated(*bins: tuple[float, float, float, int]) -> Calibration:
    found = tuple(ConfidenceBin(low, low + 0.2, tokens, sure, right) for low, sure, right, tokens in bins)
    tokens = sum(each.tokens for each in found)
    sure, right = (
        sum(getattr(each, name) * each.tokens for each in found) / tokens for name in ("confidence", "accuracy")
    )
    return Calibration(found, tokens, sure, right, 0.1, "")


def test_the_model_is_too_sure_below_a_confidence() -> None:
    low = calibrated((0.2, 0.3, 0.1, 50), (0.4, 0.5, 0.3, 50), (0.6, 0.7, 0.69, 50), (0.8, 0.9, 0.9, 500))
    assert calibration_sentence(low) == "The model is too sure below 60 %."
    high = calibrated((0.4, 0.5, 0.5, 50), (0.6, 0.7, 0.7, 50), (0.8, 0.95, 0.7, 500))
    assert calibration_sentence(high) == "The model is too sure above 80 %."
    timid = calibrated((0.2, 0.3, 0.6, 50), (0.8, 0.9, 0.9, 500))
    assert calibration_sentence(timid) == "The model is not sure enough below 40 %."
    few = calibrated((0.2, 0.3, 0.1, 3), (0.8, 0.9, 0.9, 500))
    assert calibration_sentence(few).startswith("The model knows how sure it can be"), "three tokens show nothing"
    everywhere = calibrated((0.6, 0.7, 0.4, 50), (0.8, 0.9, 0.6, 50))
    assert calibration_sentence(everywhere) == "The model is too sure: it is 80 % sure and right in 50 %."


def test_the_most_frequent_confusion() -> None:
    found = LabelBreakdown("label", {}, Counter({("a", "a"): 90, ("a", "b"): 7, ("b", "a"): 2, ("b", ""): 1}))
    assert confusion_sentence(found) == "Of 10 errors, 7 are a taken for b."
    assert confusion_sentence(LabelBreakdown("label", {}, Counter({("a", "a"): 9}))) == ""


def test_counts_as_people_say_them() -> None:
    assert [in_ten(*pair) for pair in ((3, 3), (2, 5), (70, 100), (1, 1000))] == [
        "All 3",
        "2 of 5",
        "7 of 10",
        "1 of 1,000",
    ]
