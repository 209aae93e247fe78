"""Dictionaries in the form of CMUdict: a word may have several pronunciations."""

from __future__ import annotations

from pathlib import Path

import pytest

from transduce.data.corpora import ColumnNames, DataError, Files
from transduce.data.notices import variants
from transduce.data.rows import read

LINES = """\
;;; a comment
READ  R EH1 D
READ(2)  R IY1   D # past
(1) W AH1 N

a.b(10)\tE #\t\tE B
ALONE
# another comment
"""


def test_variants_and_columns_are_targets_of_one_word(tmp_path: Path) -> None:
    (tmp_path / "a.dict").write_text(LINES, encoding="utf-8")
    rows = list(read(Files(path=str(tmp_path / "a.dict"))))
    assert [(row.number, row.source, row.target) for row in rows[:-1]] == [
        (2, "READ", "R EH1 D"),
        (3, "READ", "R IY1 D"),
        (4, "(1)", "W AH1 N"),
        (6, "a.b", "E #"),
        (6, "a.b", "E B"),
    ]
    assert rows[-1].problem is not None
    assert rows[-1].problem.place.endswith("a.dict:7")
    with pytest.raises(DataError, match="leave columns out"):
        list(read(Files(path=str(tmp_path / "a.dict")), ColumnNames(1, 0)))


def test_variants_in_other_files_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("read\ta\nread(2)\tb\nf(3)\tc\n", encoding="utf-8")
    assert variants(list(read(Files(path=str(tmp_path / "a.tsv"))))) == ["read(2)"]
