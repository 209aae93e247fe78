"""What the wing looking adds to test_notices.py."""

from __future__ import annotations

from pathlib import Path

from test_notices import data_of

from transduce.data.corpora import ColumnNames, Files
from transduce.data.notices import notices, told
from transduce.data.preparation import prepare
from transduce.data.settings import Data
from transduce.wings.looking.survey import survey

PHONES = [(word, word[::-1].upper()) for word in "ab cd efg hi jkl mno pqr st uv wx yz bc".split()]  # noqa: SIM905


def test_a_header_is_told_until_columns_are_named(tmp_path: Path) -> None:
    lines = ["word\tipa", "ab\tA B", "cd\tC D"]
    data = data_of(tmp_path / "a.tsv", lines)
    (notice,) = notices(data, "train", data.train or Files(path=""))
    assert "a.tsv:1 is probably a header ('word', 'ipa'), and is learned as a pair" in notice
    assert """data.columns={source="word", target="ipa"}""" in notice
    (notice,) = notices(data, None, data.train or Files(path=""))
    assert notice.endswith("('word', 'ipa'), and is measured as an example: take the line out")
    assert any("is probably a header" in line for line in survey(data, tmp_path).lines())
    named = data_of(tmp_path / "a.tsv", lines, columns=ColumnNames("word", "ipa"))
    assert list(notices(named, "train", named.train or Files(path=""))) == []


def test_phones_without_spaces_are_told_with_their_remedy(tmp_path: Path) -> None:
    data = data_of(tmp_path / "a.tsv", [f"{word}\t{phones}" for word, phones in PHONES])
    (tmp_path / "v.tsv").write_text("ab\tQQ\n")
    data = Data(data.units, data.train, Files(path=str(tmp_path / "v.tsv")))
    prepared = prepare(data, tmp_path)
    lines = told(data, prepared.report, prepared.tokenizers)
    assert [line for line in lines if "warning" in line] == [lines[-1]]
    assert "each target is one token, such as 'BA'" in lines[-1]
    assert "data.units.target=characters" in lines[-1]
    assert survey(data, tmp_path).lines()[-1] == lines[-1]
    for target in ("A B", "yes"):  # phones with spaces; a class
        data = data_of(tmp_path / "b.tsv", [f"{word}\t{target}" for word, _ in PHONES])
        prepared = prepare(data, tmp_path)
        assert told(data, prepared.report, prepared.tokenizers) == ["train: 12 pairs"]
