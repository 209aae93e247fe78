"""No command writes over a file that it reads, and each command checks its outputs before it begins."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from test_cli import told

from installed import runs
from transduce.cli.output_check import check_outputs
from transduce.core.errors import UserError

Call = Callable[..., tuple[int, str, str]]
LINES = b"abc\nab\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a text ``in`` under four names."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_bytes(LINES)
    (tmp_path / "link").symlink_to("in")
    os.link(tmp_path / "in", tmp_path / "hard")
    (tmp_path / "in.json").write_bytes(LINES)
    (tmp_path / "in.svg").write_bytes(LINES)
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        "predict RUN in --out in",
        "predict RUN in --out ./../{here}/in",
        "predict RUN in --out link",
        "predict RUN link --out hard",
        "predict RUN --constraints in --out in",
        "predict RUN link --prefixes in --out hard",
        "predict RUN in.progress --out in --resume",
        "predict RUN in.partial --out in",
        "back-translate RUN in --out link",
        "back-translate RUN link --pairs in --out hard",
        "embed RUN in --out in",
        "map RUN in.json --out in.json",
        "vectors convert in hard",
        "vectors train in --out link",
        "ngram in --out hard",
        "align in --out in.svg --gold in.svg",
        "music in --midi hard",
        "music link --picture in",
        "evaluate RUN --pairs in --report link",
        "evaluate RUN --pairs in.json --record in.json",
        "compare RUN --report in in",
        "examine RUN --occupations in --report in",
        "heads RUN --pairs in --out in.html --save in",
    ],
)
def test_an_output_that_is_an_input_is_refused(trained: Path, place: Path, call: Call, arguments: str) -> None:
    if not runs(arguments):
        pytest.skip("it needs a wing that was removed")
    for beside in ("in.progress", "in.partial"):
        if beside in arguments:
            (place / beside).write_bytes(LINES)
    words = arguments.format(here=place.name).replace("RUN", str(trained)).split()
    before = {path: path.read_bytes() for path in place.iterdir()}
    assert "that the command reads: name another output" in told(call(*words))
    assert {path: path.read_bytes() for path in place.iterdir()} == before


def test_a_part_of_a_run_is_no_output(own_run: Path, place: Path, call: Call) -> None:
    for name in ("config.toml", "checkpoints/best/model.safetensors", "data/new.txt", "shortlist.safetensors"):
        message = told(call("predict", own_run, "in", "--out", own_run / name))
        assert f"{own_run / name} is a part of {own_run}" in message
    assert call("predict", own_run, "in", "--out", own_run / "outputs.txt")[0] == 0  # twice: it is no part of the run
    assert call("predict", own_run, "in", "--out", own_run / "outputs.txt")[0] == 0


def test_the_data_of_a_run_are_no_output(own_run: Path, place: Path, call: Call) -> None:
    config = own_run / "config.toml"
    config.write_text(config.read_text() + f'\n[data.test]\npath = "{place / "in"}"\n')
    assert f"is data of {own_run}, a file that the command reads" in told(
        call("evaluate", own_run, "--report", place / "hard")
    )


def test_two_outputs_are_two_files(trained: Path, place: Path, call: Call) -> None:
    message = told(call("evaluate", trained, "--report", "a.json", "--record", "./a.json"))
    assert "--report and --record both name a.json: give each a file of its own" in message


@contextmanager
def opened_as(number: int, path: str, mode: int) -> Iterator[None]:
    """A context in which the file is standard input (0) or standard output (1) of the process."""
    kept, file = os.dup(number), os.open(path, mode)
    os.dup2(file, number)
    try:
        yield
    finally:
        os.dup2(kept, number)
        os.close(file)
        os.close(kept)


def test_standard_input_and_output_are_files_too(place: Path) -> None:
    with opened_as(0, "in", os.O_RDONLY):
        with pytest.raises(UserError, match="--out hard is standard input, a file that the command reads"):
            check_outputs({"out": Path("hard")}, {})
        check_outputs({"out": Path("other")}, {})
    with opened_as(1, "hard", os.O_WRONLY | os.O_APPEND):
        with pytest.raises(UserError, match="standard output goes to in, a file that the command reads"):
            check_outputs({"files": [Path("in")]}, {})
        with opened_as(0, "link", os.O_RDONLY), pytest.raises(UserError, match="standard output goes to standard inp"):
            check_outputs({}, {})
        check_outputs({"files": [Path("in.svg")]}, {})
    with opened_as(0, os.devnull, os.O_RDWR), opened_as(1, os.devnull, os.O_RDWR):
        check_outputs({"out": Path(os.devnull)}, {})


def test_a_shard_of_elsewhere_is_not_taken_for_an_answer(trained: Path, place: Path, call: Call) -> None:
    for folder in ("shards", "out"):
        (place / folder).mkdir()
        (place / folder / "a").write_bytes(LINES)
    message = told(call("predict", trained, "shards", "--out", "out"))
    assert "out has a already, which no such command has written" in message
