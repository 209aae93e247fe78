"""What the wing looking adds to test_unknown.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from test_unknown import Call

LINE = "3 of 5 tokens (60 %) in 1 of 2 lines are unknown to the model: к о т"


def told(err: str) -> list[str]:
    return [line for line in err.splitlines() if "unknown to the model" in line]


def test_commands_tell_the_share_in_one_line(trained: Path, call: Call, tmp_path: Path, caplog: Any) -> None:
    def logged(*arguments: object, stdin: bytes = b"") -> list[str]:
        caplog.clear()
        status, _, err = call(*arguments, stdin=stdin)
        assert status == 0, err
        return told(caplog.text.replace("WARNING", "\nWARNING"))

    lines = "кот\nab\n".encode()
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("ab\tкот\nab\tba\n")
    for arguments in (["predict"], ["predict", "--stream"], ["predict", "--batch-size=1"], ["rerank", "--length=1"]):
        one = logged(arguments[0], trained, *arguments[1:], stdin=lines)
        expected = LINE if "--stream" not in arguments else "3 of 3 tokens (100 %) in 1 of 1 lines are unknown"
        assert len(one) == 1, arguments
        assert f"input: {expected}" in one[0]
    assert "targets: " + LINE in logged("score", trained, pairs)[0]
    assert (
        "references: " + LINE + "; no output of its tokens equals them"
        in logged("evaluate", trained, f"--pairs={pairs}")[0]
    )
    assert "prefixes: 1 of 1 tokens" in logged("predict", trained, "--prefix=к", stdin=b"ab")[0]
    assert logged("predict", trained, stdin=b"ab") == []
