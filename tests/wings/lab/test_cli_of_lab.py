"""What the wing lab adds to test_cli.py."""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from test_cli import LINES, Call, answers, pair, told  # noqa: F401

import transduce
from transduce.runs.layout import find_weights
from transduce.wings.lab.commands.runs import ListedRun, _print_table, _recipe


def test_rows_of_a_table_are_no_sources(trained: Path, tmp_path: Path, call: Call) -> None:
    table = tmp_path / "pairs.tsv"
    table.write_text("ab\tba\nb\tb\nlast\n")
    for command in ("predict", "rerank"):
        extra = ["--mbr=bleu"] if command == "rerank" else []
        assert f"cut -f1 {table}" in told(call(command, trained, table, "--device=cpu", *extra))
    assert "standard input is a table with tabs" in told(call("predict", trained, stdin=b"ab\tba\nb\n"))
    table.write_text("\tab\na\tb\nab\n")  # tabs of a text
    assert call("predict", trained, table, "--device=cpu")[0] == 0


def test_the_search_is_changed_key_by_key(trained: Path, call: Call) -> None:
    """--set changes the options of a search, which need no options of their own on the command line."""
    record = json.loads(call("predict", trained, "--set=search.ranking=none", "--format=jsonl", stdin=b"abc\n")[1])
    assert record["score"] == record["log_prob"]
    greedy = call("predict", trained, "--device=cpu", "--beam=1", stdin=LINES)[1]
    changes = ["--set", "search.type=greedy", "--set", "search.max_length=6"]
    assert call("predict", trained, "--device=cpu", *changes, stdin=LINES)[1] == greedy
    shortest = call("evaluate", trained, "--set=search.max_length=1", "--json", "--metric=cer")[1]
    assert json.loads(shortest)["metrics"]["cer"] == 100.0  # every output is empty
    assert call("inspect", trained, "abc", "--set=search.max_length=1")[1].splitlines()[1].split()[0] == "</s>"


def test_sources_that_are_missing_are_told(trained: Path, tmp_path: Path, call: Call) -> None:
    """A run needs --source with --target, also beside a file. A comparison of files alone needs no source."""
    (tmp_path / "t").write_text("ab\nc\n")
    targets = f"--target={tmp_path / 't'}"
    together = "--source and --target go together"
    assert together in told(call("evaluate", trained, targets, "--against", tmp_path / "t", "--metric=cer"))
    assert together in told(call("compare", trained, tmp_path / "t", targets, "--metric=cer"))
    (tmp_path / "other").write_text("ab\nd\n")
    assert call("compare", tmp_path / "t", tmp_path / "other", targets, "--metric=cer", "--trials=10")[0] == 0


def test_scores_are_told_though_the_report_cannot_be_written(
    trained: Path, pair: list[str], tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("transduce.wings.pages.page.write", full)
    report = f"--report={tmp_path / 'new' / 'page.html'}"
    (tmp_path / "outputs").write_text("a\nb\nc\n")
    for command in (["evaluate", trained], ["compare", trained, tmp_path / "outputs"]):
        status, out, err = call(*command, *pair, report, "--metric=cer", "--trials=10", "--device=cpu")
        assert (status, err) == (2, "transduce: no space left\n")
        assert "cer" in out


def test_every_command_takes_several_runs(trained: Path, sister: Path, call: Call) -> None:
    runs = f"{trained}+{sister}"
    both = transduce.load(runs, device="cpu")
    assert call("predict", runs, "--device=cpu", stdin=LINES)[1].splitlines() == both(["abc", "", "zé"])
    (forced,) = both.score([("abc", "cba")])
    assert call("score", runs, "--device=cpu", stdin=b"abc\tcba\n")[1] == f"{forced.log_prob:.6f}\n"
    record = json.loads(call("evaluate", runs, "--split=valid", "--json", "--device=cpu")[1])
    assert (record["run"], record["examples"]) == (runs, 100)
    status, out, _ = call("inspect", runs, "abc", "--device=cpu")
    assert status == 0
    headings = [line for line in out.splitlines() if line.startswith("models.")]
    assert [heading.split(".")[1] for heading in headings] == ["0", "1"]


def test_what_is_printed_is_utf_8_in_every_locale(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii", errors="surrogateescape"))
    assert call("lattice", "é", "--frames=1")[0] == 0
    sys.stdout.flush()
    assert raw.getvalue().decode("utf-8").splitlines() == ["1 alignment of 'é' with 1 frames", "é"]
    assert sys.stdout.errors == "surrogateescape"  # needed for paths that are not valid UTF-8


def test_runs_are_listed_with_what_their_files_tell(trained: Path, tmp_path: Path, call: Call) -> None:
    """A run inside a run is a part of it, and a damaged one is listed too."""
    shutil.copytree(trained, tmp_path / "deep" / "one")
    shutil.copytree(trained, tmp_path / "deep" / "one" / "language-models" / "inner")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "config.toml").write_text("[data]")
    status, out, _ = call("runs", tmp_path, "--json")
    damaged, one = map(json.loads, out.splitlines())
    assert (status, damaged["run"], damaged["updates"], damaged["trained"]) == (0, "damaged", None, None)
    state = json.loads((find_weights(trained, "best").parent / "state.json").read_text())
    assert (one["run"], one["scores"]["loss"]) == ("deep/one", state["loss"])
    assert one["megabytes"] == find_weights(trained, "best").stat().st_size / 1e6
    table = call("runs", tmp_path)[1]
    assert re.search(rf"deep/one .* {one['updates']:,} .* {one['trained']}", table)
    assert "is no folder" in told(call("runs", tmp_path / "none"))
    (tmp_path / "empty").mkdir()
    assert "has no run" in call("runs", tmp_path / "empty")[1]


def test_a_narrow_terminal_has_fewer_columns_and_whole_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ListedRun("translation-transformer", "translation", {"bleu": 30.64}, 2600, 10.4, 28.5, "2026-11-28 17:53")
    for width, column in (("75", "MB"), ("66", "minutes")):
        monkeypatch.setenv("COLUMNS", width)
        _print_table([run])
        head, row = capsys.readouterr().out.rstrip().splitlines()
        assert row.split()[0] == run.run
        assert row.rstrip().endswith("2026-11-28 17:53")
        assert column in head
        assert "updates" not in head
    monkeypatch.delenv("COLUMNS")
    _print_table([run])
    assert "updates" in capsys.readouterr().out  # a file has all


def test_the_recipe_of_a_run_is_what_the_command_named() -> None:
    assert _recipe(["/bin/transduce", "train", "g2p", "--out", "x"]) == "g2p"
    assert _recipe(["train"]) is _recipe(["pytest", "x"]) is _recipe(None) is None


def test_doctor_tells_the_machine_and_what_an_extra_lacks(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    requirements = [
        "torch>=2.6",
        "pytest>=8; extra == 'series'",
        'nothing-like-it>=2; extra == "audio"',
        "x; extra == 'dev'",
    ]
    monkeypatch.setattr("importlib.metadata.requires", lambda _: requirements)
    monkeypatch.setattr("transduce.wings.records.machine.SECONDS", 0.001)
    status, out, _ = call("doctor")
    assert status == 0
    assert f"transduce   {transduce.__version__}, Python " in out
    assert re.search(r"^products +[\d,]+ GFLOP/s in float32", out, re.MULTILINE)
    assert "audio       lacks nothing-like-it: pip install 'transduce[audio]'" in out
    assert "complete: series\n" in out
