"""A file of answers can be continued after any kill. It then has the same bytes as an uninterrupted file."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from test_cli import told

from selection import mostly_slow
from transduce.answers.answer import Answer, Output
from transduce.answers.output_file import journal_of, partial_of, write_answers
from transduce.answers.request import Request
from transduce.cli.formats import PREDICTIONS
from transduce.core.errors import UserError

Call = Callable[..., tuple[int, str, str]]
LINES = ["abc", "", "zé", "b\tb", "c" * 9, "ab", "ba", "cc", "a", "bb"]
EVERY = 3
SETTINGS: dict[str, Any] = {"format": "tsv", "beam": None, "set": ["search.size=2"]}


@contextmanager
def full_after(size: int) -> Iterator[None]:
    """A context in which no file grows beyond ``size`` bytes, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    heard = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, heard)


class Stopped(BaseException):
    """Stands for a kill: no handler of errors catches it."""


def answers(stop: int = 99) -> Callable[[Iterator[Request], int], Iterator[Answer]]:
    """Answers a request with as many outputs as it has letters, up to two; stops before the request number ``stop``.

    Requests are read ahead, three at a time, as a model does.
    """

    def answer(requests: Iterator[Request], first: int) -> Iterator[Answer]:
        while window := list(islice(requests, EVERY)):
            for number, request in enumerate(window, first):
                if number == stop:
                    raise Stopped
                texts = [request.source[::-1], f"{number}"][: max(1, len(request.source))]
                yield Answer(request, [Output(text, (text, "</s>"), -0.1, -0.2, (-0.1,)) for text in texts])
            first += len(window)

    return answer


def written(path: Path, stop: int = 99, resume: bool = False, lines: list[str] = LINES, format: str = "tsv") -> bytes:
    write_answers(path, map(Request, lines), answers(stop), PREDICTIONS[format], SETTINGS, EVERY, resume)
    return path.read_bytes()


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """A file that is not complete: two marks, and the answers to two more lines."""
    path = tmp_path / "out"
    with pytest.raises(Stopped):
        written(path, stop=9)
    return path


@pytest.mark.parametrize("format", PREDICTIONS)
def test_a_file_cut_anywhere_is_continued(tmp_path: Path, format: str) -> None:
    whole = written(tmp_path / "whole", format=format)
    out = tmp_path / "out"
    with pytest.raises(Stopped):
        written(out, stop=9, format=format)
    part, journal = partial_of(out).read_bytes(), journal_of(out).read_bytes()
    assert whole.startswith(part)
    cuts = [(cut, len(journal)) for cut in range(len(part) + 1)]
    cuts += [(len(part), cut) for cut in range(len(journal) + 1)]
    for length, entries in cuts[:: 5 if format == "text" else 23]:
        partial_of(out).write_bytes(part[:length])
        out.unlink(missing_ok=True)
        journal_of(out).write_bytes(journal[:entries])
        assert written(out, resume=True, format=format) == whole
        assert sorted(tmp_path.iterdir()) == [out, tmp_path / "whole"]


def test_only_what_follows_the_last_mark_is_answered_again(begun: Path) -> None:
    asked: list[tuple[int, list[str]]] = []

    def answer(requests: Iterator[Request], first: int) -> Iterator[Answer]:
        rest = list(requests)
        asked.append((first, [request.source for request in rest]))
        return answers()(iter(rest), first)

    write_answers(begun, map(Request, LINES), answer, PREDICTIONS["tsv"], SETTINGS, EVERY, resume=True)
    assert asked == [(7, LINES[6:])]


def test_a_file_is_resumed_again_and_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for stop in (4, 5, 7, 8, 10):
        with pytest.raises(Stopped):
            written(out, stop, resume=True)
    assert written(out, resume=True) == written(tmp_path / "whole")


def test_bytes_that_the_machine_lost_are_written_again(begun: Path, tmp_path: Path) -> None:
    """After a power failure a file can end in zeros that no mark describes."""
    part = partial_of(begun).read_bytes()
    partial_of(begun).write_bytes(part[: len(part) // 2] + bytes(len(part) - len(part) // 2))
    assert written(begun, resume=True) == written(tmp_path / "whole")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda out: partial_of(out).write_bytes(b"X" * 999), "out.partial does not begin as it was written"),
        (lambda out: journal_of(out).unlink(), "out.partial has no out.progress, and out would be written there"),
        (lambda out: journal_of(out).write_text('{"version": 0}\n'), "another version of transduce"),
        (lambda out: journal_of(out).write_text("my notes\n"), "out.progress is no journal of out"),
        (lambda out: Path(f"{journal_of(out)}.lock").write_text("mine"), "is no lock of out.progress"),
    ],
)
def test_a_file_that_was_changed_is_refused(begun: Path, change: Callable[[Path], Any], message: str) -> None:
    change(begun)
    before = {path: path.read_bytes() for path in begun.parent.iterdir()}
    with pytest.raises(UserError, match=message):
        written(begun, resume=True)
    assert {path: path.read_bytes() for path in begun.parent.iterdir()} == before


def test_another_input_is_refused(begun: Path) -> None:
    with pytest.raises(UserError, match="answers to 6 lines, and the beginning of this input differs"):
        written(begun, resume=True, lines=[*LINES[:4], "other", *LINES[5:]])
    with pytest.raises(UserError, match="answers to 6 lines, and the beginning of this input has only 4 lines"):
        written(begun, resume=True, lines=LINES[:4])
    asked = [Request(line, prefix="b") for line in LINES]
    with pytest.raises(UserError, match="this input differs"):
        write_answers(begun, asked, answers(), PREDICTIONS["tsv"], SETTINGS, EVERY, resume=True)


def test_other_settings_are_refused(begun: Path) -> None:
    settings = SETTINGS | {"beam": 3, "new": 1}
    with pytest.raises(UserError, match=r"other settings \(beam = None, now 3, new = None, now 1\)"):
        write_answers(begun, map(Request, LINES), answers(), PREDICTIONS["tsv"], settings, EVERY, resume=True)


def test_work_is_not_lost_by_a_call_without_resume(begun: Path) -> None:
    with pytest.raises(UserError, match=r"out\.partial is not complete, as out\.progress shows: add --resume"):
        written(begun)
    complete = written(begun, resume=True)
    assert written(begun) == complete  # a complete file is replaced
    with pytest.raises(UserError, match=r"out has no out\.progress: it is complete"):
        written(begun, resume=True)


def test_work_that_fails_at_once_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        written(tmp_path / "out", stop=2)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("stop", [2, 9])
def test_a_complete_file_stays_until_the_new_one_is_complete(tmp_path: Path, stop: int) -> None:
    out = tmp_path / "out"
    out.write_text("of an earlier call")
    with pytest.raises(Stopped):
        written(out, stop)
    assert out.read_text() == "of an earlier call"
    assert partial_of(out).exists() == (stop == 9)
    assert written(out, resume=stop == 9) == written(tmp_path / "whole")


def test_a_file_may_be_replaced_by_answers_to_itself(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    with out.open(encoding="utf-8") as lines:
        requests = (Request(line.removesuffix("\n")) for line in lines)
        write_answers(out, requests, answers(), PREDICTIONS["tsv"], SETTINGS, EVERY)
    assert out.read_bytes() == written(tmp_path / "whole")


def test_a_link_and_the_rights_of_a_file_stay(tmp_path: Path) -> None:
    (tmp_path / "far").touch(mode=0o640)
    (tmp_path / "link").symlink_to("far")
    assert written(tmp_path / "link") == written(tmp_path / "whole")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "far").stat().st_mode & 0o777 == 0o640


def test_a_device_is_written_and_not_replaced(tmp_path: Path, terminal: tuple[int, Path]) -> None:
    screen, device = terminal
    write_answers(device, map(Request, LINES), answers(), PREDICTIONS["tsv"], SETTINGS, EVERY)
    whole, read = written(tmp_path / "whole"), b""
    while len(read) < len(whole):
        read += os.read(screen, 9999).replace(b"\r\n", b"\n")
    assert read == whole
    assert device.is_char_device()
    with pytest.raises(UserError, match="cannot be resumed"):
        written(device, resume=True)


def test_a_full_disk_is_told_with_the_file_and_loses_no_marks(tmp_path: Path) -> None:
    out, lines = tmp_path / "out", [*LINES[:5], "c" * 3000] * 2
    with pytest.raises(OSError, match=r"File too large: '.*/out\.partial'"), full_after(10_000):
        written(out, lines=lines)
    assert journal_of(out).exists()
    assert written(out, resume=True, lines=lines) == written(tmp_path / "whole", lines=lines)


def test_missing_folders_are_made(tmp_path: Path, begun: Path) -> None:
    assert written(tmp_path / "new" / "folder" / "out") == written(begun, resume=True)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder in which nobody may write: /proc")
def test_a_file_that_cannot_be_written_is_not_taken_for_another_process() -> None:
    with pytest.raises(OSError, match="/proc/out"):
        written(Path("/proc/out"))


def test_one_process_writes_at_a_time(begun: Path) -> None:
    def answer(requests: Iterator[Request], first: int) -> Iterator[Answer]:
        for resume in (True, False):
            with pytest.raises(UserError, match=r"out\.progress is in use: another process writes out"):
                written(begun, resume=resume)
        return answers()(requests, first)

    write_answers(begun, map(Request, LINES), answer, PREDICTIONS["tsv"], SETTINGS, EVERY, resume=True)


# ------------------------------------------------------------------- predict


RESUMED = [["--nbest=2"], ["--format=tsv"], ["--format=jsonl", "--nbest=2"]]


@pytest.mark.parametrize("asked", mostly_slow(RESUMED, fast=RESUMED[2:]), ids=str)
def test_predict_resumes(trained: Path, tmp_path: Path, call: Call, asked: list[str]) -> None:
    """Killed in the last window: a line of standard input that cannot be read stands for the kill."""
    lines = ["abc", "", "zé", "cab", "b" * 5, "ab"]
    (tmp_path / "in").write_text("\n".join(lines) + "\n", encoding="utf-8")
    broken = "\n".join([*lines[:5], "x" * 2**21]).encode()  # longer than a line may be
    out, options = tmp_path / "out", ["--device=cpu", "--window=2", "--batch-size=2", *asked]
    assert call("predict", trained, "--out", out, *options, stdin=broken)[0] == 2
    assert journal_of(out).exists()
    with partial_of(out).open("r+b") as file:
        file.truncate(partial_of(out).stat().st_size - 1)
    for changed in ("--beam=3", "--window=3"):
        message = told(call("predict", trained, tmp_path / "in", "--out", out, "--resume", *options, changed))
        assert "other settings" in message
    assert call("predict", trained, tmp_path / "in", "--out", out, "--resume", *options)[:2] == (0, "")
    assert out.read_text(encoding="utf-8") == call("predict", trained, tmp_path / "in", *options)[1]


def test_resume_needs_a_file(call: Call) -> None:
    assert "--resume continues a file: name it with --out" in told(call("predict", "RUN", "--resume"))


def test_a_window_is_answered_before_the_next_is_read(trained: Path, tmp_path: Path) -> None:
    import transduce

    read: list[int] = []
    requests = (read.append(number) or Request("ab") for number in range(20))
    found = transduce.load(trained, device="cpu").answer(requests, batch_size=2, window=5)
    for number, _ in enumerate(found):
        assert len(read) == 5 * (number // 5 + 1)


@pytest.mark.slow
def test_a_killed_process_is_continued(trained: Path, tmp_path: Path) -> None:
    """SIGKILL at random moments, until one call ends."""
    drawn = random.Random(4)
    lines = ["".join(drawn.choices("abc", k=drawn.randrange(6))) for _ in range(1500)]
    (tmp_path / "in").write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "transduce", "predict", str(trained), str(tmp_path / "in"), "--device=cpu"]
    command += ["--threads=1", "--window=20", "--batch-size=4", "--format=jsonl", "--nbest=2", "--out"]
    subprocess.run([*command, str(tmp_path / "whole")], check=True)
    out, kills, size = tmp_path / "out", 0, 0
    part = partial_of(out)
    while kills < 3:
        with subprocess.Popen([*command, str(out), "--resume"], stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and (not part.exists() or part.stat().st_size == size):  # until it writes
                time.sleep(0.01)
            time.sleep(drawn.uniform(0.0, 0.1))
            os.kill(process.pid, signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        kills, size = kills + 1, part.stat().st_size
    assert journal_of(out).exists()
    subprocess.run([*command, str(out), "--resume"], check=True)
    assert out.read_bytes() == (tmp_path / "whole").read_bytes()
