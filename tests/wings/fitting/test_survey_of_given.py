"""What data are: the task by content, what a person should know, and splits that do not leak."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from transduce.core.errors import UserError
from transduce.wings.fitting.candidates import sized, task
from transduce.wings.fitting.given import Given, Pair
from transduce.wings.fitting.splits import FOLDS, leaks, new_sources, views
from transduce.wings.fitting.survey import survey

LETTERS = "abcdefghijklmnop"
NUMBERS = range(60)


def word(number: int) -> str:
    return LETTERS[number % 16] + LETTERS[number // 16] + "tion"


TASKS: dict[str, tuple[str, list[Pair]]] = {
    "pronunciation": ("text", [(word(n), " ".join(word(n)[:4])) for n in NUMBERS]),
    "spelling": ("text", [(word(n) + "x", word(n)) for n in NUMBERS]),
    "transliteration": ("text", [(word(n), "".join(chr(ord(c) + 0x3D0) for c in word(n))) for n in NUMBERS]),
    "labels": ("text", [(f"some {word(n)}", "good" if n % 2 else "bad") for n in NUMBERS]),
    "tags": ("text", [(f"the {word(n)} is {word(n + 1)}", "D N V A") for n in NUMBERS]),
    "entities": ("tokens", [(f"the {word(n)}", "O B-X") for n in NUMBERS]),
    "translation": ("text", [(f"das {word(n)} ist", f"the {word(n)[::-1]} is") for n in NUMBERS]),
    "compression": ("text", [(f"well the {word(n)} is here", f"the {word(n)} is") for n in NUMBERS]),
    "summaries": ("text", [(f"the {word(n)} is here and " * 20, f"the {word(n)} is here") for n in NUMBERS]),
    "accents": ("text", [(f"un e {word(n)}", f"un é {word(n)}") for n in NUMBERS]),
    "inflection": ("features", [(f"V;PST\t{word(n)}", word(n) + "ed") for n in NUMBERS]),
    "text": ("text", [("", f"a line with {word(n)}") for n in NUMBERS]),
    "trees": ("trees", [(f"a {word(n)}", f"(S (D a) (N {word(n)}))") for n in NUMBERS]),
    "sound-labels": ("sound", [(f"/x/{word(n)}.wav", "yes" if n % 2 else "no") for n in NUMBERS]),
    "picture-text": ("picture", [(f"/x/{word(n)}.png", word(n)) for n in NUMBERS]),
}


@pytest.mark.parametrize("name", TASKS)
def test_the_task_is_seen_and_has_candidates(name: str) -> None:
    form, pairs = TASKS[name]
    found = survey(Given(pairs, form))
    assert found.task == name
    assert name == "text" or task(name, len(pairs)).candidates


def test_what_is_told() -> None:
    pairs = [("à", "x"), ("à", "y"), ("б", "z"), ("б", "z"), *((word(n), "q" + word(n)) for n in range(6))]
    lines = "\n".join(survey(Given(pairs * 2)).lines())
    for told in (
        "median length of a source: 1 word and 6 characters; ",
        "Cyrillic",
        "1 sources have several targets",
        "9 pairs occur more than once",
    ):
        assert told in lines
    mixed = survey(Given([("abc", "x"), ("где", "y")] * 9))
    assert any(line.startswith("warning: sources are in 2 scripts") for line in mixed.lines())


def test_every_candidate_of_the_rules_is_a_recipe_that_trains_on_files() -> None:
    for name in TASKS.keys() - {"text"}:
        for pairs in (100, 2000, 40_000):
            for candidate in task(name, pairs).candidates:
                table = candidate.table({"data.train.path": "t.jsonl", "data.valid.path": "v.jsonl"})
                assert table["data"]["train"] == {"path": "t.jsonl"}
                assert "origin" not in table["data"]
                assert table["training"].get("steps") == candidate.steps()
                assert "steps" in table["training"] or "epochs" in table["training"]
                assert "minutes" not in table["training"]


def test_the_sizes_of_a_recipe_choose_its_candidate() -> None:
    assert [sized("g2p", pairs) for pairs in (2999, 3000, 30_000)] == ["g2p-small", "g2p-medium", "g2p"]
    assert task("inflection", 100).candidates[0].recipe == "inflection-small"


def test_a_user_who_names_another_task_or_candidate_is_told_what_there_is() -> None:
    with pytest.raises(UserError, match="no rule for the task 'sing': there are pronunciation"):
        task("sing", 10)


# --------------------------------------------------------------------- splits


def sources(pairs: Sequence[Pair]) -> set[str]:
    return {source for source, _ in pairs}


def test_all_pairs_of_a_source_are_held_out_together() -> None:
    pairs = [(f"s{number // 3}", f"t{number}") for number in range(1200)]
    (view,) = views(pairs, None)
    assert not sources(view.train) & sources(view.valid)
    assert len(view.valid) in range(120, 124)
    assert len(view.train) + len(view.valid) == 1200
    assert views(pairs[::-1], None)[0].valid[0][0] == view.valid[0][0]  # the order of the file does not matter


def test_few_pairs_are_each_validated_on_once() -> None:
    pairs = [(f"s{number}", f"t{number}") for number in range(90)]
    folds = views(pairs, None)
    assert len(folds) == FOLDS
    assert sorted(pair for fold in folds for pair in fold.valid) == sorted(pairs)
    assert all(not sources(fold.train) & sources(fold.valid) for fold in folds)
    with pytest.raises(UserError, match="3 different sources: at least 8"):
        views(pairs[:3] * 10, None)


def test_leaks_are_told() -> None:
    train = [(word(n), "x") for n in NUMBERS]
    (told,) = leaks({"train": train, "test": train[:10]})
    assert told.startswith("warning: 10 of 10 sources of test are also in train (10 with the same target)")
    (told,) = leaks({"train": train, "test": [("ж", "y")]})
    assert told == "1 of 1 sources of test have characters that training never has: ж"
    assert new_sources([train[0], ("new", "x")], train) == [1]
