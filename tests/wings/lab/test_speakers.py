"""benchmarks/speakers.py: who says what, and whether a classifier hears it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from transduce.core.types import Example

pytestmark = pytest.mark.usefixtures("benchmarks")

WORDS = {"ROMEO": "love night sweet", "HENRY": "war sword field", "PUCK": "fairy jest wood"}


class Player:
    """Says one of two things; the label makes the one with its own words more probable."""

    def predict(self, sources: Sequence[str]) -> list[list[Any]]:
        both = [SimpleNamespace(text="love night"), SimpleNamespace(text="war sword")]
        return [both for _ in sources]

    def score(self, pairs: Iterable[tuple[str, str]]) -> list[Any]:
        return [SimpleNamespace(score=self._log_prob(source.split("\t")[0], reply)) for source, reply in pairs]

    def _log_prob(self, label: str, reply: str) -> float:
        return -1.0 if label not in WORDS else 0.0 if reply.split()[0] in WORDS[label] else -2.0


def lines(times: int) -> list[Example]:
    order = [name for name in WORDS for _ in range(times)]
    return [Example(f"{name}\tand then", (f"{WORDS[name]} {number}",)) for number, name in enumerate(order)]


def test_the_most_frequent_speakers() -> None:
    from speakers import frequent, named

    some = [*lines(2), Example("PUCK\tx", ("a fairy",)), Example("NURSE\tx", ("oh",))]
    assert frequent(some, 1) == ["PUCK"]
    assert {each.references for each in named(some, ["PUCK", "HENRY"])} == {("PUCK",), ("HENRY",)}
    assert len(named(some, ["PUCK"])) == 3


def test_the_sample_that_suits_the_speaker_is_taken() -> None:
    from speakers import chosen, replies

    model = cast(Any, Player())
    assert replies(model, ["x"], ["ROMEO", "HENRY"]) == [{"ROMEO": "love night", "HENRY": "love night"}]
    assert chosen(model, ["x"], ["ROMEO", "HENRY"]) == [{"ROMEO": "love night", "HENRY": "war sword"}]


def test_a_classifier_recognises_speakers_who_differ_and_no_others() -> None:
    from simple_methods.base import Splits
    from speakers import named, recognised

    learned = Splits(named(lines(12), [*WORDS]), named(lines(4), [*WORDS]), [])
    own = recognised([dict(WORDS)] * 4, learned)
    assert own.score == 100.0
    assert len(own.rows_NK) == 4  # a row for each source: they are resampled together
    same = recognised([dict.fromkeys(WORDS, "war sword")] * 4, learned)
    assert same.score == pytest.approx(100 / 3)
