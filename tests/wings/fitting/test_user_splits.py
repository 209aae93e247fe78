"""The splits of a user: a test share that is held out, shared sources that are left out, and equal columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from transduce.core.errors import UserError
from transduce.wings.fitting.fit import Wishes, look_at
from transduce.wings.fitting.given import Columns
from transduce.wings.fitting.user_splits import Data

PAIRS = [(f"s{number // 2}", f"t{number}") for number in range(400)]  # two pairs of each source


def read(train: object, valid: object = None, test: object = None, drop_shared: bool = False) -> Data:
    return Data.read(train, valid, test, Columns(), drop_shared)


def sources(pairs: list[tuple[str, str]]) -> set[str]:
    return {source for source, _ in pairs}


def test_a_share_of_the_sources_is_held_out() -> None:
    found = read(PAIRS, test=["12.5%"])
    held = found.pairs["test"]
    assert len(held) == 50
    assert not sources(held) & sources(found.pairs["train"])
    assert sorted(held + found.pairs["train"]) == sorted(PAIRS)
    again = read(PAIRS[::-1], test="12.5%")
    assert sorted(again.pairs["test"]) == sorted(held)  # the order of the file does not matter
    assert found.notes == ["test: all 50 pairs of 12.5 % of the sources are held out, in every call the same"]


@pytest.mark.parametrize(("share", "message"), [("0%", "--test 0%: more than 0%"), ("60%", "at most 50%")])
def test_a_share_that_is_none(share: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read(PAIRS, test=share)
    with pytest.raises(UserError, match="--test 10% of 2 pairs leaves no pair"):
        read(PAIRS[:2], test="10%")


def test_shared_sources_are_left_out_of_the_earlier_split() -> None:
    valid, test = [("s0", "x"), ("s1", "y")], [("s1", "z")]
    found = read(PAIRS, valid, test, drop_shared=True)
    assert found.pairs["test"] == test
    assert found.pairs["valid"] == [("s0", "x")]
    assert found.pairs["train"] == PAIRS[4:]
    assert found.notes == [
        "1 pairs are left out of valid: their sources are also in test",
        "4 pairs are left out of train: their sources are also in valid or test",
    ]
    with pytest.raises(UserError, match="--drop-shared leaves no pair in train"):
        read(PAIRS[:2], None, PAIRS, drop_shared=True)
    assert read(PAIRS, None, None, drop_shared=True).notes == []


def test_a_leak_is_told_with_its_remedy_and_the_remedy_works() -> None:
    pairs = [(f"a text {number}", "ab"[number % 2]) for number in range(600)]
    told = [line for line in look_at(pairs, test=pairs[:50]) if "also in" in line]
    assert told[0].endswith("--drop-shared leaves these pairs out of train")
    told = [line for line in look_at(pairs, test=pairs[:50], wishes=Wishes(drop_shared=True)) if "also in" in line]
    assert told == ["50 pairs are left out of train: their sources are also in test"]
    assert any("--test 10% holds out" in line for line in look_at(pairs))
    assert not any("--test 10% holds out" in line for line in look_at(pairs, test="10%"))


def test_few_test_lines_have_the_columns_of_the_training_lines(tmp_path: Path) -> None:
    """A column of three labels in six lines does not look like labels, but it is the one of training."""
    lines = [f"{'abc'[number % 3]}\ttext {number}\n" for number in range(60)]
    (tmp_path / "train.tsv").write_text("".join(lines))
    (tmp_path / "test.tsv").write_text("".join(lines[:6]))
    found = read(str(tmp_path / "train.tsv"), None, [str(tmp_path / "test.tsv")])
    assert found.pairs["train"][0] == found.pairs["test"][0] == ("text 0", "a")
    assert [note.partition(": ")[2] for note in found.notes] == [
        "the second column is the source, the first column is the target (a label: 3 different); if it is the reverse: "
        "--source 0 --target 1"
    ]
