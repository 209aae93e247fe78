"""docs/tutorial.md: every command and program of it, one after the other, with the output that it shows."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"\d+([.,:]\d+)*(e-\d+)?")
ADDRESS = "127.0.0.1:8000"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder, in which `transduce` and `python` are those of the tests."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, words in (("transduce", "-m transduce"), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("curl"), reason="the page asks the server by curl")
def test_the_page_from_its_first_line_to_its_last(folder: Path) -> None:
    address = f"127.0.0.1:{_free_port()}"
    server: subprocess.Popen[str] | None = None
    printed = ""
    try:
        for language, block in BLOCKS[1:]:  # the first one installs
            text = block.replace(ADDRESS, address)
            if language == "text":
                check(text, printed)
            elif language == "sh":  # for a file of the reader
                continue
            elif text.startswith("transduce serve"):
                server, printed = serve(text, address)
            elif language == "python" and "pairs.tsv" in text:
                (folder / "dates.py").write_text(text)
            else:
                printed = run(text, language)
    finally:
        if server is not None:
            server.send_signal(signal.SIGINT)
            server.communicate(timeout=60)


def run(text: str, language: str) -> str:
    """What a block of commands, or a program, prints."""
    words = [sys.executable, "-c", text] if language == "python" else ["bash", "-ec", text]
    done = subprocess.run(words, capture_output=True, text=True, timeout=900)
    assert not done.returncode, f"{text}{done.stderr}"
    return done.stderr + done.stdout


def serve(text: str, address: str) -> tuple[subprocess.Popen[str], str]:
    """A server that answers, and what it has printed."""
    command = ["bash", "-ec", f"exec {text.strip()} --port {address.rpartition(':')[2]}"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert server.stdout is not None
    printed = server.stdout.readline()
    for _ in range(100):
        try:
            urllib.request.urlopen(f"http://{address}/health", timeout=5).close()
            break
        except OSError:
            time.sleep(0.1)
    return server, printed


def check(shown: str, printed: str) -> None:
    """Fails unless the lines that the page shows were printed, in their order. Three dots stand for the rest of a line,
    or for lines. Measured numbers may differ, and so may the precision that suits the processor.
    """
    lines = iter(printed.splitlines())
    for line in shown.splitlines():
        pattern = ".*".join(_pattern(part) for part in line.split("…"))
        assert any(re.fullmatch(pattern, each) for each in lines), f"{line!r} is not in what was printed:\n{printed}"


def _pattern(text: str) -> str:
    """A regular expression of a text: spaces are one or more, numbers any numbers, but answers are themselves."""
    if re.search(r"\d{4}-\d\d-\d\d", text):
        return re.escape(text)
    words = re.escape(" ".join(NUMBER.sub("7", text).split()))
    return r"\s*" + words.replace(r"\ ", r"\s+").replace("7", NUMBER.pattern).replace("bfloat16", r"\w+")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_an_output_that_differs_is_noticed() -> None:
    check("  cer  0.00 …\n…\nend\n", "  cer 1.25  [0.1, 2]\na\nend\n")
    for shown in ("1976-07-04\n", "exact 1\ncer 1\n"):
        with pytest.raises(AssertionError, match="is not in what was printed"):
            check(shown, "1976-07-05\ncer 1.25\nexact 1\n")
