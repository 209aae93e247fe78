"""The progress of commands: what is shown, where, and what never has it."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import sys
import time
from collections.abc import Iterator

import pytest

from transduce.answers.batches import sorted_batches, windows
from transduce.core.stages import Stage, open_stages
from transduce.wings.terminal import progress
from transduce.wings.terminal.progress import Above, MovingLine, described, drawn, share


def test_windows_and_their_batches_tell_how_many_examples_are_done() -> None:
    shares, texts = [], []
    for window in windows(list(range(10)), 4):
        rows = [(1, item) for item in window]

        def answer(batches: object) -> Iterator[list[int]]:
            for batch in batches:  # type: ignore[attr-defined]
                shares.append(round(share(open_stages), 2))
                texts.append(described(open_stages, 0.0))
                yield batch

        sorted_batches(rows, 2, answer)
    assert shares == [0.0, 0.2, 0.4, 0.6, 0.8]  # a step of the window is done with its batches
    assert texts[2] == "4 of 10 examples"
    assert not open_stages


def test_a_stage_is_named_and_the_time_left_follows_from_its_share() -> None:
    with Stage("compare"), Stage("runs/b"), Stage("examples", 200) as now:
        now.done, now.began = 50, 0.0
        assert described(open_stages, 10.0) == "compare: runs/b: 50 of 200 examples, about 0:30 left"
    with Stage("data"), Stage("pairs read") as now:
        now.done = 1234567
        assert described(open_stages, 10.0) == "data: 1,234,567 pairs read"


def test_nothing_is_shown_beside_another_progress_or_while_lines_are_awaited() -> None:
    with Stage("train"), Stage(""), Stage("examples", 5):
        assert described(open_stages, 9.0) is None
    reading = windows(iter("abc"), 2)
    next(reading)
    assert [each.name for each in open_stages] == ["examples"]  # at work
    reading.close()
    assert described(open_stages, 9.0) is None

    def lines() -> Iterator[str]:
        assert not open_stages, "the program waits for a line"
        yield "a"

    assert list(windows(lines(), 2)) == [["a"]]


@pytest.mark.parametrize("width", [20, 80, 160])
def test_the_line_fits_the_terminal(width: int) -> None:
    line = drawn("evaluate: 1,234 of 3,000 examples, about 0:20 left " * 3, 0.41, 65.0, width, False)
    assert len(line) < width
    assert width < 80 or " 41 %  1:05  evaluate" in line


def test_what_a_command_prints_stands_above_the_line() -> None:
    out = io.StringIO()
    moving = MovingLine(out)
    stream = Above(out, moving)
    moving.draw("half")
    stream.write("a line\n")
    moving.draw("more")
    stream.write("a half line")
    moving.draw("not drawn behind it")
    assert out.getvalue() == "\r\x1b[Khalf\r\x1b[Ka line\n\r\x1b[Kmore\r\x1b[Ka half line"


def test_a_log_has_lines_now_and_then_and_json_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "IN_LOG", 0.01)
    for words, expected in ((["evaluate", "RUN"], r"0:00  evaluate\n"), (["evaluate", "RUN", "--json"], "")):
        monkeypatch.setattr(sys, "argv", ["transduce", *words])
        with progress.shown():
            time.sleep(0.04)
        told = capsys.readouterr().err
        assert re.match(expected, told) and "\r" not in told if expected else not told


def test_a_terminal_is_clean_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    monkeypatch.setattr(progress, "FIRST", 0.01)
    monkeypatch.setattr(sys, "argv", ["transduce", "evaluate", "RUN"])
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with progress.shown(), Stage("examples", 4) as now:
            now.done = 2
            time.sleep(0.1)
        assert sys.stderr is terminal
        written = ""
        while not written.endswith("\x1b[K") or "%" not in written:  # a read may end early
            assert select.select([ours], [], [], 10.0)[0], f"nothing more is written after {written!r}"
            written += os.read(ours, 10_000).decode()
    assert "50 %  0:00  evaluate: 2 of 4 examples" in written
    os.close(ours)
