"""Files that can be read and are not what the user means, and files of another kind than a command expects."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from transduce.core import recipes
from transduce.core.config import ConfigError
from transduce.data.corpora import ColumnNames, DataError, Files
from transduce.data.notices import header, notices
from transduce.data.preparation import examples, prepare
from transduce.data.rows import CorpusRow
from transduce.data.settings import Data, Units
from transduce.data.tokenizers.text import Characters, Symbols

Call = Callable[..., tuple[int, str, str]]


def rows(*pairs: tuple[str | None, str]) -> list[CorpusRow]:
    return [CorpusRow(number, *pair) for number, pair in enumerate(pairs, 1)]


def data_of(path: Path, lines: list[str], **settings: object) -> Data:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return Data(Units(Characters(), Symbols()), train=Files(path=str(path)), **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("cells", [("word", "ipa"), ("de", "en"), ("Source Text", "Target"), ("lemma", "my_forms")])
def test_a_header_is_noticed(cells: tuple[str, str]) -> None:
    assert header(rows(cells, ("ab", "A B"), ("cd", "C D"))) == cells


@pytest.mark.parametrize(
    "pairs",
    [
        [("word", "w er d"), ("ab", "A B")],
        [("cat", "dog"), ("ab", "A B")],
        [("text", "text"), ("a", "b"), ("text", "x")],
        [(None, "text"), (None, "a line")],
        [("word", "ipa")],
        [],
    ],
)
def test_a_first_pair_is_no_header(pairs: list[tuple[str | None, str]]) -> None:
    assert header(rows(*pairs)) is None


def test_further_columns_are_counted_until_columns_are_chosen(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines = ["ab\tA B\tCC-BY", "cd\tC D", "ef\tE F\tCC-BY\tmore"]
    data = data_of(tmp_path / "a.tsv", lines)
    report = prepare(data, tmp_path).report.lines()
    place = f"{tmp_path / 'a.tsv'}"
    assert report[1].startswith("  2 with further columns (not read; data.columns chooses, or the suffix .dict makes")
    assert report[1].endswith(f": {place}:1, {place}:3")
    assert len(examples(data, "train", tmp_path)) == 3
    assert "2 with further columns" in caplog.text
    chosen = data_of(tmp_path / "a.tsv", lines, columns=ColumnNames(0, 1))
    assert prepare(chosen, tmp_path).report.lines() == ["train: 3 pairs"]


def test_markup_as_text_is_told(tmp_path: Path) -> None:
    for name in ("s", "t"):
        (tmp_path / name).write_text('<?xml version="1.0"?>\n<tmx version="1.4">\n')
    files = Files(source=str(tmp_path / "s"), target=str(tmp_path / "t"))
    data = Data(Units(Characters(), Characters()), train=files)
    assert [line.partition(";")[0] for line in notices(data, "train", files)] == [
        f"{tmp_path / name}: its content is TMX, a translation memory in XML, and its lines are read as plain text"
        for name in ("s", "t")
    ]


def test_a_table_as_one_side_is_told(tmp_path: Path) -> None:
    for name in ("s.tsv", "s", "t", "u.txt"):
        (tmp_path / name).write_text("a\tb\nc\td\n")
    data = Data(Units(Characters(), Characters()))
    both = Files(source=str(tmp_path / "s"), target=str(tmp_path / "t"))
    named = Files(source=str(tmp_path / "s.tsv"), target=str(tmp_path / "s.tsv"))
    for files, wrong in ((both, ["t"]), (named, ["s.tsv", "s.tsv"]), (Files(path=str(tmp_path / "u.txt")), ["u.txt"])):
        assert [line.partition(":")[0] for line in notices(data, "valid", files)] == [
            str(tmp_path / name) for name in wrong
        ]


def test_a_file_is_not_taken_for_the_name_of_a_recipe(tmp_path: Path) -> None:
    contents = {
        "a.csv": ("word,ipa\nab,c\n", "a CSV table, .*--set data.train.path="),
        "x.tmx": ("<tmx>\n", "TMX, .*--set data.train.path="),
        "a.tsv": ("a\tb\n", "a tab-separated table, .*--set data.train.path="),
        "a.jsonl": ('{"a": 1}\n', "JSON lines, .*--set data.train.path="),
        "text": ("a\n", "plain text, .*data.train.source="),
    }
    for name, (content, kind) in contents.items():
        (tmp_path / name).write_text(content)
        with pytest.raises(ConfigError, match=f"{name} is {kind}") as raised:
            recipes.read(tmp_path / name)
        assert "Known:" not in str(raised.value)
    with pytest.raises(ConfigError, match=r"a folder, and not a recipe"):
        recipes.read(tmp_path)
    with pytest.raises(ConfigError, match=r"no file .*none\.tsv"):
        recipes.read(tmp_path / "none.tsv")


def test_data_of_another_form_are_named(tmp_path: Path) -> None:
    data = data_of(tmp_path / "a.tsv", ["word,ipa", "ab,c"])
    with pytest.raises(DataError, match=r"(?s)is left after cleaning.*a\.tsv is a CSV table"):
        prepare(data, tmp_path)
    (tmp_path / "a.html").write_text("<html>\n")
    with pytest.raises(DataError, match=r"a\.html is HTML, .* a file of data was expected"):
        prepare(Data(data.units, Files(path=str(tmp_path / "a.html"))), tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.toml").touch()
    with pytest.raises(DataError, match="run is a run directory, and a file of data was expected"):
        prepare(Data(data.units, Files(path=str(tmp_path / "run"))), tmp_path)
