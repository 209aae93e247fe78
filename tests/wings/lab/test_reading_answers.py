"""benchmarks/reading.py: questions of parsed sentences, methods without a model, and the scores of answers."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("benchmarks")

SENTENCES = (
    "Results result NOUN 2 nsubj|clearly clearly ADV 2 advmod|show show VERB -1 root|a a DET 4 det"
    "|trend trend NOUN 2 obj|in in ADP 6 case|May May PROPN 2 obl|. . PUNCT 2 punct",
    "They they PRON 1 nsubj|sleep sleep VERB -1 root|. . PUNCT 1 punct",
    "It it PRON 1 nsubj|is be VERB -1 root|here here ADV 1 advmod",
)


def conllu(folder: Path) -> Path:
    lines = ["# newdoc id = one"]
    for sentence in SENTENCES:
        for place, word in enumerate(sentence.split("|"), 1):
            form, lemma, tag, head, relation = word.split()
            lines.append("\t".join([f"{place}", form, lemma, tag, "_", "_", f"{int(head) + 1}", relation, "_", "_"]))
        lines.append("")
    (folder / "some.conllu").write_text("\n".join(lines), encoding="utf-8")
    return folder / "some.conllu"


def test_a_sentence_gives_a_question_for_each_phrase_of_its_verb(tmp_path: Path) -> None:
    from reading import made

    passage = "Results clearly show a trend in May . They sleep . It is here"
    assert made(conllu(tmp_path), random.Random(1)) == [
        ("what show a trend ?", passage, "Results"),
        ("what do Results show ?", passage, "a trend"),
        ("when or where do Results show a trend ?", passage, "in May"),
    ]


def test_a_phrase_is_side_by_side(tmp_path: Path) -> None:
    from reading import documents, phrase

    ((first, *_),) = documents(conllu(tmp_path))
    assert phrase(first, 4) == [3, 4]
    assert phrase(first, 2) == [0, 1, 2, 3, 4, 5, 6]  # without the full stop


def test_the_nearest_sentence_is_the_one_with_rare_words_of_the_question() -> None:
    from reading import any_phrase, nearest, rarities

    asked = ("what do the king wear ?", "the king wear the crown of May . the dog and the cat sleep in the sun .", "x")
    rarity = rarities([asked, ("", "the dog", "")])
    assert rarity["the"] == 0 < rarity["king"]
    assert nearest(asked, rarity, "first") == nearest(asked, rarity, "last") == "crown of May"
    assert nearest(("sleep ?", *asked[1:]), rarity, "first") == "the dog and the cat"
    assert nearest(("sleep ?", *asked[1:]), rarity, "last") == "in the sun"
    assert any_phrase(asked) == "crown of May"


def test_f1_of_words_without_articles() -> None:
    from reading import f1, measured

    assert f1("The crown .", "a crown") == 1.0
    assert f1("crown of May", "the crown") == pytest.approx(0.5)
    assert f1("", "crown") == 0.0
    exact, words = measured(["the crown", "crown"], [("", "", "the crown"), ("", "", "a crown")])
    assert (exact.score, words.score) == (50.0, 100.0)
