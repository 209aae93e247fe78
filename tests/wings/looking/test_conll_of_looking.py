"""What the wing looking adds to test_conll.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_conll import data, file

from transduce.data.corpora import DataError
from transduce.data.preparation import prepare
from transduce.data.settings import Lines
from transduce.data.tokenizers.text import Characters
from transduce.wings.looking.survey import survey


def test_words_and_labels_of_unequal_number_are_told(tmp_path: Path) -> None:
    files = file(tmp_path, "a.tsv", "a b c\tX Y Z\na b\tX\nc\tZ\n")
    with pytest.raises(DataError, match=r"a\.tsv:2: 1 labels in the target for 2 tokens in the source; mend the line"):
        prepare(data(files, Lines(unequal="error")), tmp_path / "cache")
    prepared = prepare(data(files, Lines(unequal="skip")), tmp_path / "cache")
    assert prepared.report.splits["train"].kept == len(prepared.train) == 2
    assert prepared.report.lines() == ["train: 2 pairs", f"  1 unequal (skip): {files.path}:2"]
    tally = survey(data(files, Lines(unequal="skip")), tmp_path / "cache").splits["train"].tally
    assert tally == prepared.report.splits["train"]
    assert len(prepare(data(files, Lines()), tmp_path / "cache").train) == 3
    (by_character,) = [prepare(data(files, Lines(unequal="skip"), Characters()), tmp_path / "cache").train]
    assert len(by_character) == 1  # "c", a character, and "Z"
