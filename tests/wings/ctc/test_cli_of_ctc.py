"""What the wing ctc adds to test_cli.py."""

from __future__ import annotations

from pathlib import Path

from test_cli import Call


def test_lattice_lists_alignments_or_draws_them(call: Call, tmp_path: Path) -> None:
    status, out, _ = call("lattice", "Hi", "--frames=3")
    assert (status, out.splitlines()[0]) == (0, "5 alignments of 'Hi' with 3 frames")
    assert sorted(out.splitlines()[1:]) == ["-Hi", "H-i", "HHi", "Hi-", "Hii"]
    assert call("lattice", "Hello", "--frames=6")[1] == "1 alignment of 'Hello' with 6 frames\nHel-lo\n"
    assert call("lattice", "Hi", "--frames=9", "--most=0")[1].splitlines()[1] == "... and 330 more"
    assert call("lattice", "Hi", "--frames=5", "--out", tmp_path / "hi.svg")[:2] == (0, "")
    assert (tmp_path / "hi.svg").read_text(encoding="utf-8").startswith("<svg")
    assert call("lattice", "Hi", "--frames=1001")[0] == 2
