"""What the wing serving adds to test_text_files.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from transduce.core.errors import DataError
from transduce.runs.checkpoints import best_rank
from transduce.runs.history import read_history
from transduce.runs.layout import HISTORY, STATE
from transduce.wings.alignment.links import Links
from transduce.wings.serving.commands.serve import OperatorOptions


def test_a_damaged_file_of_a_run_is_told(tmp_path: Path) -> None:
    (tmp_path / "best").mkdir()
    for path, read in (
        (tmp_path / "best" / STATE, lambda: best_rank(tmp_path)),
        (tmp_path / HISTORY, lambda: read_history(tmp_path)),
        (tmp_path / "key", lambda: OperatorOptions(key_file=tmp_path / "key").keys()),
    ):
        path.write_bytes(b"\xff")
        with pytest.raises(DataError, match=rf"{path.name}:1: byte 0xff is not UTF-8"):
            read()


def test_a_link_has_no_number_of_thousands_of_digits() -> None:
    for number in ("9" * 5000, "9" * 20):
        with pytest.raises(ValueError, match=r"line 1: '9{20}.*' is no link"):
            Links.read([f"{number}-0"])
