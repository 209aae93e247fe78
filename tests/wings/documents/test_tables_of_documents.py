"""CSV tables and translation memories as data."""

from __future__ import annotations

from pathlib import Path

import pytest

from transduce.data.corpora import ColumnNames, DataError, Files
from transduce.data.rows import CorpusRow, check, read


def rows(path: Path, text: str, columns: ColumnNames | None = None, longest: int = 1000) -> list[CorpusRow]:
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return list(read(Files(path=str(path)), columns, longest))


def sides(found: list[CorpusRow]) -> list[tuple[str | None, str | None]]:
    return [(row.source, row.target) for row in found if row.problem is None]


def test_a_csv_table_has_quoted_cells_and_names(tmp_path: Path) -> None:
    text = 'id,target,source\r\n1,"a, ""b""\nc",d\r\n\r\n2,é,f\r\n3,only\r\n4,"x"y,z\r\n5,u,v\r\n'
    found = rows(tmp_path / "a.csv", text)
    assert sides(found) == [("d", 'a, "b" c'), ("f", "é"), ("v", "u")]
    assert [(row.number, row.problem.detail) for row in found if row.problem] == [
        (6, "2 columns found, at least 3 expected for columns 'source', 'target'"),
        (7, "',' expected after '\"'"),
    ]
    assert [row.number for row in found] == [2, 5, 6, 7, 8]


def test_the_first_line_tells_the_separator(tmp_path: Path) -> None:
    assert sides(rows(tmp_path / "a.csv", "a,b;c\n", ColumnNames(1, 0))) == [("b;c", "a")]
    assert sides(rows(tmp_path / "a.csv", "a;b;c,d\n", ColumnNames(0, 2))) == [("a", "c,d")]
    assert sides(rows(tmp_path / "a.csv", "a|b\n", ColumnNames(0, 1))) == [("a", "b")]
    assert sides(rows(tmp_path / "a.csv", "a, b\tc\td\n", ColumnNames(0, 1))) == [("a, b", "c")]
    declared = rows(tmp_path / "a.csv", "\ufeffsep=\t\r\nsource\ttarget\r\na,b\tc\r\n")
    assert (sides(declared), declared[0].number) == ([("a,b", "c")], 3)


def test_names_that_a_csv_table_lacks_are_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.csv has no column 'source': its columns are 'ab', 'ba'"):
        rows(tmp_path / "a.csv", "ab,ba\nc,d\n")
    with pytest.raises(DataError, match=r"a\.csv:1: the names of the columns cannot be read: ',' expected"):
        rows(tmp_path / "a.csv", 'source,"tar"get\nc,d\n')


def test_a_quote_that_nothing_closes_does_not_fill_the_memory(tmp_path: Path) -> None:
    text = 'source,target\na,"b\n' + "c,d\n" * 40_000
    found = rows(tmp_path / "a.csv", text)
    assert found[0].problem is not None
    assert "field larger than field limit" in found[0].problem.detail
    undecodable = rows(tmp_path / "a.csv", "source,target\na,\udcff\n")[0]
    assert undecodable.problem is not None
    assert undecodable.problem.kind == "undecodable"


TMX = """<?xml version="1.0" encoding="UTF-16"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="en-GB"><seg>A <bpt i="1">&lt;b&gt;</bpt>big<ept i="1">&lt;/b&gt;</ept>
  <hi>house</hi> &amp; more</seg></tuv><tuv xml:lang="DE"><seg>Ein großes Haus</seg></tuv></tu>
<tu><tuv lang="en-GB"><seg>one</seg></tuv><tuv xml:lang="de"><seg>eins</seg></tuv>
<tuv xml:lang="de"><seg>einer</seg></tuv></tu><tu><tuv xml:lang="de"><seg>x</seg></tuv></tu>
</body></tmx>"""


def test_a_translation_memory_has_languages_as_columns(tmp_path: Path) -> None:
    found = rows(tmp_path / "a.tmx", TMX, ColumnNames("en", "de"))
    assert sides(found) == [("A big house & more", "Ein großes Haus"), ("one", "eins"), ("one", "einer")]
    assert found[-1].problem is not None
    assert "languages 'en' and 'de' expected, 'de' found" in found[-1].problem.detail
    assert check(Files(path=str(tmp_path / "a.tmx"))) == 3
    with pytest.raises(DataError, match=r"has texts in 'en-gb', 'de': choose two languages"):
        rows(tmp_path / "a.tmx", TMX)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<tmx><body><tu></body></tmx>", "a.tmx:1: this is no XML"),
        ("<html><body/></html>", "XML of another kind"),
        ("<tmx><body/></tmx>", "has no <tu>"),
        ("<tmx><body><tu><tuv xml:lang='de'><seg>&x;</seg></tuv></tu></body></tmx>", "this is no XML"),
    ],
)
def test_other_files_are_no_translation_memories(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        rows(tmp_path / "a.tmx", text, ColumnNames("en", "de"))
