"""What a user gives to fit: columns are found by content or names, and bad input is refused in one line."""

from __future__ import annotations

import gzip
import wave
from pathlib import Path

import pytest

from transduce.core.errors import UserError
from transduce.wings.fitting.given import Columns, Given, given

WORDS = [f"w{number} x{number}" for number in range(40)]


def table(folder: Path, name: str, *rows: str) -> str:
    path = folder / name
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return str(path)


def read(folder: Path, name: str, *rows: str, columns: Columns | None = None) -> Given:
    return given([table(folder, name, *rows)], columns)


def test_a_header_is_no_pair(tmp_path: Path) -> None:
    found = read(tmp_path, "a.tsv", "word\tpronunciation", *(f"w{n}\tp {n}" for n in range(9)))
    assert found.pairs[0] == ("w0", "p 0")
    assert len(found.pairs) == 9
    assert "names of columns (word, pronunciation)" in found.notes[0]


def test_a_first_pair_that_looks_like_a_header_and_occurs_again_is_a_pair(tmp_path: Path) -> None:
    assert len(read(tmp_path, "a.tsv", "word\ttarget", "word\tx", "a\tb").pairs) == 3


def test_labels_are_the_target_in_either_column(tmp_path: Path) -> None:
    for name, rows in (
        ("first.tsv", [f"{'ab'[n % 2]}\t{text}" for n, text in enumerate(WORDS)]),
        ("last.tsv", [f"{text}\t{'ab'[n % 2]}" for n, text in enumerate(WORDS)]),
    ):
        assert read(tmp_path, name, *rows).pairs[1] == ("w1 x1", "b")


def test_it_is_told_which_column_is_the_source(tmp_path: Path) -> None:
    (note,) = read(tmp_path, "a.tsv", *(f"w{n}\tp {n}" for n in range(9))).notes
    assert note.endswith("the first column is the source, the second column is the target; if it is the reverse: "
                         "--source 1 --target 0")  # fmt: skip
    rows = [f"{n},a text {n},{'xy'[n % 2]}" for n in range(20)]
    notes = read(tmp_path, "a.csv", "id,text,label", *rows).notes
    assert notes[-1].endswith("the column text is the source, the column label is the target (a label: 2 different); "
                              "if it is the reverse: --source label --target text")  # fmt: skip
    rows = [f'{{"a": "a text {n}", "b": "{"xy"[n % 2]}"}}' for n in range(20)]
    assert "the column b is the target (a label: 2 different)" in read(tmp_path, "a.jsonl", *rows).notes[0]


def test_features_stand_in_any_of_three_columns(tmp_path: Path) -> None:
    for name, order in (("a.tsv", (0, 1, 2)), ("b.tsv", (0, 2, 1)), ("c.tsv", (2, 0, 1))):
        cells = [(f"lemma{n}", f"form{n}", f"V;{'SG' if n % 2 else 'PL'}") for n in range(20)]
        found = read(tmp_path, name, *("\t".join(row[place] for place in order) for row in cells))
        assert found.form == "features"
        assert found.pairs[1] == ("V;SG\tlemma1", "form1")


def test_three_columns_need_names_or_a_choice(tmp_path: Path) -> None:
    rows = [f"{n},a text {n},{'xy'[n % 2]}" for n in range(20)]
    assert read(tmp_path, "a.csv", "id,text,label", *rows).pairs[1] == ("a text 1", "y")
    with pytest.raises(UserError, match=r"3 columns \(0 to 2\): choose two, --source"):
        read(tmp_path, "b.tsv", *(row.replace(",", "\t") for row in rows))
    chosen = read(tmp_path, "b.tsv", *(row.replace(",", "\t") for row in rows), columns=Columns("1", "2"))
    assert chosen.pairs[1] == ("a text 1", "y")


def test_json_lines_with_other_keys(tmp_path: Path) -> None:
    found = read(tmp_path, "a.jsonl", *(f'{{"n": {n}, "question": "q{n}", "answer": "a{n}"}}' for n in range(9)))
    assert found.pairs[0] == ("q0", "a0")


def test_the_tags_of_conll_are_in_the_last_column(tmp_path: Path) -> None:
    found = read(tmp_path, "a.conll", "the DT O", "cat NN B-X", "", "a DT O")
    assert found.form == "tokens"
    assert found.pairs == [("the cat", "O B-X"), ("a", "O")]


def test_two_files_and_a_compressed_one(tmp_path: Path) -> None:
    (tmp_path / "t.de.gz").write_bytes(gzip.compress(b"eins\nzwei\n"))
    assert given([str(tmp_path / "t.de.gz"), table(tmp_path, "t.en", "one", "two")]).pairs[1] == ("zwei", "two")


def test_folders_of_recordings(tmp_path: Path) -> None:
    for label in ("yes", "no"):
        (tmp_path / "by-label" / label).mkdir(parents=True)
        with wave.open(str(tmp_path / "by-label" / label / "1.wav"), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes(bytes(1600))
    found = given([str(tmp_path / "by-label")])
    assert found.form == "sound"
    assert [target for _, target in found.pairs] == ["no", "yes"]
    listed = table(tmp_path / "by-label", "list.tsv", "yes/1.wav\tyes", "no/1.wav\tno")
    assert given([listed]).pairs[0] == (str(tmp_path.resolve() / "by-label" / "yes" / "1.wav"), "yes")
    with pytest.raises(UserError, match="names 1 files that do not exist"):
        given([table(tmp_path, "other.tsv", "yes/1.wav\tyes")])


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("a.tsv", [], "is empty"),
        ("a.tsv", ["a\t ", "b\t"], "no usable pair.*2 empty lines"),
        ("a.jsonl", ['{"a": 1, "b": 2, "c": 3}'], "has the keys 'a', 'b', 'c'"),
        ("a.jsonl", ["no json"], "a line that is no JSON"),
        ("a.conll", ["word"], "a word and its tag were expected"),
        ("a.xyz", ["a"], "cannot tell the format"),
    ],
)
def test_bad_input(tmp_path: Path, name: str, rows: list[str], message: str) -> None:
    with pytest.raises((UserError, ValueError), match=message):
        read(tmp_path, name, *rows)
