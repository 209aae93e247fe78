"""What the wing looking adds to test_language_model.py."""

from __future__ import annotations

from pathlib import Path

from test_cli import Call
from test_language_model import text  # noqa: F401


def test_text_is_surveyed(text: Path, tmp_path: Path, call: Call) -> None:
    status, out, _ = call("data", text, "--out", tmp_path)
    assert status == 0
    assert "target characters: mean 3.6" in out
    assert "source" not in out
