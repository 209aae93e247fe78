"""What the wing combining adds to test_problems.py."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from test_cli import told
from test_problems import Call

from transduce.core.errors import UserError


def test_rerank_score_and_back_translate_go_on(
    trained: Path, call: Call, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from transduce.answers.transducer import Transducer

    read = Transducer.read

    def reading(model: Transducer, sources: Sequence[str], first: int = 1):  # type: ignore[no-untyped-def]
        if "bad" in sources:
            raise UserError("a recording that cannot be read")
        return read(model, sources, first)

    monkeypatch.setattr(Transducer, "read", reading)
    for command, given, lines in (
        (["rerank", "--mbr", "cer"], "ab\nbad\na\n", 3),
        (["score"], "ab\tb\nbad\tb\na\ta\n", 3),
        (["back-translate"], "ab\nbad\na\n", 2),
    ):
        caplog.clear()
        status, printed, _ = call(command[0], trained, *command[1:], stdin=given.encode())
        assert (status, printed.count("\n")) == (1, lines), command
        assert "input 2: a recording that cannot be read" in caplog.text
    assert "input 1: a recording" in told(call("score", trained, stdin=b"bad\tb\n"))
