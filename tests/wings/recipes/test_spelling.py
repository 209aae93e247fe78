"""Misspellings: each kind of error, how they are drawn, and the corpus that is made of them."""

from __future__ import annotations

import gzip
import importlib.metadata
import json
import random
from collections import Counter
from pathlib import Path

import pytest
from rapidfuzz.distance import OSA

from transduce.data.corpora import DataError, Files, present
from transduce.data.rows import read
from transduce.wings.recipes.origins import spelling_errors
from transduce.wings.recipes.origins.chance import hashed_split
from transduce.wings.recipes.origins.misspellings import Misspellings


def pairs(files: Files | None) -> list[tuple[str, str | None]]:
    assert files is not None
    return [(row.source, row.target) for row in read(files)]


# --------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("edit", "word", "expected"),
    [
        (spelling_errors.deletion, "cat", ["at", "ct", "ca"]),
        (spelling_errors.transposition, "seen", ["esen", "sene"]),
        (spelling_errors.transposition, "aa", []),
        (spelling_errors.doubling, "seen", ["sseen", "seenn"]),
        (spelling_errors.undoubling, "bookkeeper", ["bokkeeper", "bookeeper", "bookkeper"]),
        (spelling_errors.undoubling, "cat", []),
        (spelling_errors.neighbour, "p", ["o", "l"]),
        (spelling_errors.neighbour, "s", ["a", "d", "w", "e", "z", "x"]),
        (spelling_errors.neighbour, "é'", []),
        (spelling_errors.sound, "f", ["ff", "ph", "gh", "v"]),
        (spelling_errors.sound, "b'", ["p'"]),
    ],
)
def test_an_edit_gives_all_that_it_can(edit, word, expected):
    assert edit(word) == expected


def test_a_letter_is_inserted_anywhere():
    assert set(spelling_errors.insertion("a")) == {x + "a" for x in spelling_errors.string.ascii_lowercase} | {
        "a" + x for x in spelling_errors.string.ascii_lowercase
    }


@pytest.mark.parametrize(
    ("word", "wrong"),
    [("receive", "recieve"), ("phone", "fone"), ("station", "stashun"), ("separate", "seperate"), ("knight", "night")],
)
def test_well_known_misspellings_are_among_the_edits(word, wrong):
    assert wrong in {text for edit in spelling_errors.KINDS for text in edit(word)}


def test_every_kind_of_edit_is_one_edit_or_a_sound():
    for edit in set(spelling_errors.KINDS) - {spelling_errors.sound}:
        assert {OSA.distance("committee", text) for text in edit("committee")} == {1}, edit
    assert "committee" not in spelling_errors.sound("committee")


def test_edits_are_as_many_and_of_the_kinds_that_the_tables_say(monkeypatch):
    assert sum(spelling_errors.NUMBERS) == sum(spelling_errors.KINDS.values()) == 100
    seen: Counter[str] = Counter()

    def counting(kind):
        return lambda word: seen.update([kind]) or [word + "."]

    kinds = {counting(edit.__name__): weight for edit, weight in spelling_errors.KINDS.items()}
    monkeypatch.setattr(spelling_errors, "KINDS", kinds)
    drawn = Counter(spelling_errors.misspelling("a" * 12, random.Random(n)).count(".") for n in range(4000))
    assert [drawn[n] / 40 for n in (1, 2, 3, 4)] == pytest.approx(spelling_errors.NUMBERS, abs=3)
    assert 100 * seen["sound"] / seen.total() == pytest.approx(35, abs=3)
    assert {spelling_errors.misspelling("cat", random.Random(n)) for n in range(50)} == {
        "cat."
    }  # short words have one error
    assert max(len(spelling_errors.misspelling("word", random.Random(n))) for n in range(50)) == len("word..")


# --------------------------------------------------------------------- corpus


@pytest.fixture
def lexicon(tmp_path) -> str:
    path = tmp_path / "words.txt"
    path.write_text("separate\nreceive\nfrom\nform\n\nfrom\ncommittee\nnever\n")
    return str(path)


def test_the_corpus_is_a_function_of_its_settings(tmp_path, lexicon):
    origin = Misspellings(words=5, each=40, lexicon=lexicon)
    splits = {split: pairs(files) for split, files in present(origin.prepare(tmp_path / "a")).items()}
    again = {split: pairs(files) for split, files in present(origin.prepare(tmp_path / "b")).items()}
    assert splits == again
    assert all(hashed_split(wrong) == split for split, found in splits.items() for wrong, _ in found)
    everything = [pair for found in splits.values() for pair in found]
    assert len(set(everything)) == len(everything) > 100
    assert {word for _, word in everything} == {"separate", "receive", "from", "form", "committee"}
    assert not {"from", "form"} & {wrong for wrong, _ in everything}  # another word is no misspelling
    other = Misspellings(words=5, each=40, lexicon=lexicon, seed=2).prepare(tmp_path / "c")
    assert pairs(other.train) != splits["train"]


def test_a_words_misspellings_are_the_same_in_any_list_and_for_ever(tmp_path, lexicon):
    (tmp_path / "one.txt").write_text("receive\n")
    alone = present(Misspellings(each=12, lexicon=str(tmp_path / "one.txt")).prepare(tmp_path / "a")).values()
    among = present(Misspellings(each=12, lexicon=lexicon).prepare(tmp_path / "b")).values()
    of_one = {pair for files in alone for pair in pairs(files)}
    assert of_one == {pair for files in among for pair in pairs(files) if pair[1] == "receive"}
    assert [spelling_errors.misspelling("receive", random.Random(f"1 receive {n}")) for n in range(4)] == KNOWN


def test_collected_misspellings_are_learned_from_and_nothing_else(tmp_path, lexicon):
    made = Misspellings(each=40, lexicon=lexicon).prepare(tmp_path / "a")
    wrong, word = pairs(made.test)[0]
    path = tmp_path / "real.tsv.gz"
    path.write_bytes(gzip.compress(f"{wrong}\tanother\nno tab here\nIreland's\tÉire\n".encode()))
    splits = Misspellings(each=40, lexicon=lexicon, collected=str(path)).prepare(tmp_path / "b")
    train = pairs(splits.train)
    assert train[:2] == [(wrong, "another"), ("Ireland's", "Éire")]
    assert (wrong, word) in train
    assert pairs(splits.test) == [pair for pair in pairs(made.test) if pair[0] != wrong]


def test_other_words_are_another_corpus(tmp_path, lexicon):
    before = Misspellings(lexicon=lexicon).prepare(tmp_path / "o")
    assert Misspellings(lexicon=lexicon).prepare(tmp_path / "o") == before
    Path(lexicon).write_text("altogether\n")
    after = Misspellings(lexicon=lexicon).prepare(tmp_path / "o")
    assert {word for _, word in pairs(after.train)} == {"altogether"}


def test_without_a_lexicon_the_most_frequent_words_of_the_package_are_taken(tmp_path, monkeypatch):
    data = tmp_path / "site" / "spellchecker" / "resources" / "en.json.gz"
    data.parent.mkdir(parents=True)
    data.write_bytes(gzip.compress(json.dumps({"zebra": 3, "never": 9, "alter": 9, "yacht": 1}).encode()))
    information = tmp_path / "site" / "pyspellchecker-9.9.dist-info" / "METADATA"
    information.parent.mkdir()
    information.write_text("Metadata-Version: 2.1\nName: pyspellchecker\nVersion: 9.9\n")
    found = importlib.metadata.PathDistribution(information.parent)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: found)
    splits = Misspellings(words=3).prepare(tmp_path / "o")
    assert list(dict.fromkeys(word for _, word in pairs(splits.train))) == ["alter", "never", "zebra"]


def test_what_cannot_be_made_is_told(tmp_path, monkeypatch):
    for make in (lambda: Misspellings(words=0), lambda: Misspellings(each=0)):
        with pytest.raises(DataError, match="at least one word and one misspelling of it"):
            make()
    (tmp_path / "none.txt").write_text("\n \n")
    with pytest.raises(DataError, match=r"none\.txt has no words: expected a word a line"):
        Misspellings(lexicon=str(tmp_path / "none.txt")).prepare(tmp_path / "o")

    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    with pytest.raises(DataError, match=r"'pyspellchecker' is not installed: pip install 'transduce\[recipes\]'"):
        Misspellings().prepare(tmp_path / "o")


KNOWN = ["eeceive", "recuivw", "receove", "recieipve"]
"""What was drawn when this was written: another Python, or another table of errors, is another corpus."""
