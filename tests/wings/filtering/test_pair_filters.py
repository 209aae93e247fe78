"""Filters find the pairs that teach a model nothing, or the wrong thing, and say why."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from test_cli import Call

from transduce.core.errors import DataError
from transduce.data.corpora import Files
from transduce.data.preparation import prepare
from transduce.data.rows import CorpusRow, read
from transduce.data.settings import Data, Units
from transduce.data.tokenizers.text import Symbols
from transduce.wings.filtering.pairs import PairFilters
from transduce.wings.filtering.texts import script, words

COUNT = 1200
CHEAP = PairFilters(improbable=0)
NOISE = {
    0: ("da ba", "la na", None),
    1: ("da ba", "la na", "duplicate"),
    2: ("da  BA", "Da ba", "copied"),
    3: ("da ba", "ла на", "in another script"),
    4: ("da ba", "x" * 60, "of unlike lengths"),
}


def pairs(wrong: int = 0) -> list[tuple[str, str]]:
    """Sources of words, and targets with another word for each. The targets of the last ``wrong`` pairs are another
    one's.
    """
    dice = random.Random(1)
    sources = [[f"{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in dice.sample(range(60), 6)] for _ in range(COUNT)]
    targets = [" ".join(f"{word}o" for word in reversed(source)) for source in sources]
    return [(" ".join(source), targets[(n - 7) if n >= COUNT - wrong else n]) for n, source in enumerate(sources)]


def file_of(folder: Path, rows: list[tuple[str, str]]) -> Files:
    path = folder / "train.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in rows), encoding="utf-8")
    return Files(path=str(path))


def kinds(filters: PairFilters, files: Files) -> dict[int, str]:
    """The kinds of problems by the numbers of the rows, from 0."""
    found = filters.removed(lambda: read(files))
    return {row.number - 1: found[row.key][0] for row in read(files) if row.key in found}


def test_cheap_filters(tmp_path: Path) -> None:
    files = file_of(tmp_path, [*((a, b) for a, b, _ in NOISE.values()), *pairs()[:30]])
    assert kinds(CHEAP, files) == {n: kind for n, (_, _, kind) in NOISE.items() if kind}
    only = PairFilters(False, False, False, False, 0, 0)
    assert kinds(only, files) == {}
    assert kinds(PairFilters(duplicates=False, scripts=False, languages=False, ratio=0, improbable=0), files) == {
        2: "copied"
    }


def test_a_text_in_the_other_language(tmp_path: Path) -> None:
    every = pairs()[:200]
    turned = (every[0][1], every[0][0])
    assert kinds(CHEAP, file_of(tmp_path, [turned, *every[1:]])) == {0: "in the other language"}


def test_pairs_that_the_aligner_finds_improbable(tmp_path: Path) -> None:
    wrong = 120
    found = kinds(PairFilters(), file_of(tmp_path, pairs(wrong)))
    assert set(found.values()) == {"improbable"}
    assert sum(n >= COUNT - wrong for n in found) >= 0.9 * wrong
    assert sum(n < COUNT - wrong for n in found) <= 0.01 * COUNT


def test_an_aligner_that_knows_nothing_removes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    dice = random.Random(1)
    files = file_of(tmp_path, [(f"word{n}", " ".join(dice.sample("aeioubdgkt", 5))) for n in range(COUNT)])
    assert kinds(PairFilters(), files) == {}
    assert "data.filters.improbable is not applied" in caplog.text
    assert kinds(PairFilters(), file_of(tmp_path, pairs(20)[-500:])) == {}  # too few


def test_copies_are_meant_where_most_are(tmp_path: Path) -> None:
    assert kinds(CHEAP, file_of(tmp_path, [(f"word{n}", f"word{n}") for n in range(20)])) == {}


def test_only_the_training_set_is_filtered_and_the_report_says_so(tmp_path: Path, call: Call) -> None:
    rows = [(a, b) for a, b, _ in NOISE.values()]
    files = file_of(tmp_path, rows)
    data = Data(Units(Symbols(), Symbols()), train=files, valid=files, filters=CHEAP)
    prepared = prepare(data, tmp_path / "cache")
    tally = prepared.report.splits["train"]
    assert (tally.kept, prepared.report.splits["valid"].kept) == (1, 5)
    assert tally.findings["in another script"].places == [f"{files.path}:4 (the target is cyrillic)"]
    assert "л" not in "".join(map(str, prepared.target_tokenizer.entries))
    assert prepare(data, tmp_path / "cache").removed == {key: list(why) for key, why in prepared.removed.items()}
    plain = prepare(Data(Units(Symbols(), Symbols()), train=files, valid=files), tmp_path / "cache")
    assert plain.report.splits["train"].kept == 5
    status, out, _ = call("data", files.path, "--set", "data.filters.type=pairs", f"--out={tmp_path}")
    assert status == 0
    assert "train: 1 pairs\n" in out
    assert f"1 copied (data.filters): {files.path}:3" in out
    assert f"1 of unlike lengths (data.filters): {files.path}:5 (5 and 60 characters)" in out


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("ratio=1", "filters.ratio = 1.0: more than 1"),
        ("improbable=2", "filters.improbable = 2.0: a share between 0 and 1"),
        ("sample=10", "filters.sample = 10: at least 1000"),
        ("type=pair", 'did you mean "pairs"?'),
    ],
)
def test_wrong_settings_are_refused(setting: str, told: str, tmp_path: Path, call: Call) -> None:
    files = file_of(tmp_path, [("a", "b")])
    wrong = ["--set", "data.filters.type=pairs", "--set", f"data.filters.{setting}"]
    status, _, err = call("data", files.path, *wrong, f"--out={tmp_path}")
    assert (status, told in err) == (2, True), err


def test_one_side_cannot_be_filtered(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="are for pairs"):
        PairFilters().removed(lambda: iter([CorpusRow(1, None, "a")]))


def test_words_and_scripts() -> None:
    assert words("Ein Hund, 12!") == ["ein", "hund", ",", "12", "!"]
    assert words("猫が好き") == ["猫", "が", "好", "き"]
    assert [script(text) for text in ("12!", "aж b", "猫が", "हिन्दी")] == ["", "LATIN", "CJK", "DEVANAGARI"]
    assert script("ж") == "CYRILLIC"
