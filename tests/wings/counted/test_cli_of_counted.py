"""What the wing counted adds to test_cli.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_cli import Call, told

from transduce.wings.counted.shortlist import CandidateWords


def test_a_shortlist_that_is_there_is_whole(own_run: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(_: CandidateWords, path: Path) -> None:
        path.write_bytes(b"half of")
        raise OSError("killed")

    assert call("shortlist", own_run, "--best=2")[0] == 0
    assert not list(own_run.glob("*.new"))
    whole = (own_run / "shortlist.safetensors").read_bytes()
    monkeypatch.setattr(CandidateWords, "save", killed)
    assert "killed" in told(call("shortlist", own_run, "--best=2"))
    assert (own_run / "shortlist.safetensors").read_bytes() == whole
