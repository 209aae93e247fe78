"""docs/search.md: every command and every line of Python on it, run on a tiny model."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import transduce

Call = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "search.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [line for language, block in BLOCKS if not language for line in block.replace("\\\n", " ").splitlines()]
ELSEWHERE = ("transduce train", "language_model=")  # these need other runs: test_search_language_model.py has them
SAID = re.findall(r"`(transduce predict \S+ --[^`]+)`", PAGE)


@pytest.fixture
def folder(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where all runs that the page names are, and its files."""
    for name in set(re.findall(r"runs/([\w-]+)", PAGE)):
        (tmp_path / "runs").mkdir(exist_ok=True)
        shutil.copytree(trained, tmp_path / "runs" / name, copy_function=os.link)
    for name in ("words.txt", "german.txt"):
        (tmp_path / name).write_text("abc\nde\n")
    (noisy,) = (block for language, block in BLOCKS if language == "toml" and "[rerank]" in block)
    (tmp_path / "noisy.toml").write_text(noisy)
    (tmp_path / "found.tsv").write_text("abc\t-1\tb\nabc\t-2\ta\n")
    (tmp_path / "beginnings.txt").write_text("a\nb\n")
    (tmp_path / "terms.tsv").write_text("abc\tdd\n")
    (tmp_path / "wanted.jsonl").write_text(
        '{"source": "abc", "prefix": "c"}\n{"source": "de", "required": [["dd", "e"]]}\n'
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(each, marks=[pytest.mark.slow] if "--workers" in each else [])
        for each in COMMANDS + SAID
        if each.startswith("transduce") and not any(part in each for part in ELSEWHERE)
    ],
)
def test_the_commands(command: str, folder: Path, call: Call) -> None:
    arguments = shlex.split(command.partition(" #")[0].replace("RUN", "runs/g2p german.txt"))[1:]
    files = [] if any(each.endswith((".txt", ".jsonl")) for each in arguments) else ["german.txt"]
    if "--shortlist" in arguments:
        call("shortlist", arguments[1])
    extra = [*files, "--device=cpu", "--set=search.max_length=12"] if arguments[0] != "shortlist" else []
    status, out, err = call(*arguments, *extra)
    assert (status, err) == (0, "")
    assert len(out.splitlines()) >= 2


def test_there_is_no_other_kind_of_command() -> None:
    assert [command for command in COMMANDS if not command.startswith("transduce")] == [
        "python benchmarks search_errors runs/g2p --sentences 500"
    ]


@pytest.mark.slow
def test_search_errors_are_counted(trained: Path) -> None:
    arguments = [str(trained), "--sentences=20", "--expansions=30", "--beam", "1", "4", "--threads=1"]
    command = [sys.executable, ROOT / "benchmarks", "search_errors", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if re.match(r"\| (greedy|beam 4) ", line)]
    counts = [re.findall(r"(\d+) of (\d+)", row)[0] for row in rows]
    assert sum(int(of) for _, of in counts[::2]) == 20  # finished and unfinished, where there are such
    assert all(int(wider[0]) <= int(greedy[0]) for greedy, wider in zip(counts[::2], counts[1::2], strict=True))


def test_the_python(folder: Path) -> None:
    names = {"transduce": transduce, "lines": ["abc", "de"]}
    exec("\n".join(block for language, block in BLOCKS if language == "python"), names)
    assert len(names["best"]) == 2
    assert all("abc" in outputs[0].text or "cab" in outputs[0].text for outputs in names["held"])
    assert names["sampled"].search.size == 5
    assert "".join(names["model"].stream("abc")) == names["model"]("abc")
