"""What the wing looking adds to test_cli.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from test_cli import Call, as_sets


def test_two_plain_files_through_the_template(tmp_path: Path, call: Call) -> None:
    lines = ["ein Hund schläft", "zwei Hunde", "ein Kind", "das Kind schläft", "drei Kinder"] * 4
    splits = []
    for split in ("train", "valid"):
        for side, suffix in (("source", ""), ("target", " !")):
            path = tmp_path / f"{split}.{side}"
            path.write_text("".join(f"{line}{suffix}\n" for line in lines), encoding="utf-8")
            splits.append(f"--set=data.{split}.{side}={path}")
    small = [f"--set=model.{side}.{key}=8" for side in ("encoder", "decoder") for key in ("width", "embedding_width")]
    budget = ["--set=training.steps=2", "--device=cpu"]
    run = tmp_path / "run"
    status, _, err = call("train", "translation", "--out", run, *splits, *small, *budget, "--set=search.max_length=5")
    assert status == 0, err
    assert "bleu" in err
    status, out, _ = call("predict", run, "--device=cpu", stdin=b"ein Kind\nzwei\n")
    assert (status, out.count("\n")) == (0, 2)


def test_the_tree_of_a_search(call: Call, trained: Path, tmp_path: Path) -> None:
    lines = call("inspect", trained, "abca", "--beam-tree", "--beam=3", "--device=cpu")[1].splitlines()
    assert "the best" in "".join(lines)
    assert len(lines) > 1
    status, out, _ = call("inspect", trained, "abca", "--beam-tree", "--out", tmp_path / "tree.html", "--device=cpu")
    assert (status, out) == (0, "")
    assert "<svg" in (tmp_path / "tree.html").read_text(encoding="utf-8")
    assert call("inspect", trained, "abca", "--beam-tree", f"--out={tmp_path / 'tree.svg'}", "--device=cpu")[0] == 0
    assert (tmp_path / "tree.svg").read_text(encoding="utf-8").startswith("<svg")
    every = call("inspect", trained, "abca", "--beam-tree", "--beam=3", "--pruned", "--device=cpu")[1]
    assert " ×" in every
    assert " ×" not in "".join(lines)


def test_distance_shows_all_alignments(call: Call) -> None:
    status, out, _ = call("distance", "fawl", "awn", "--substitution=2", "--all")
    assert status == 0
    assert "distance 3, 3 optimal alignments" in out
    assert out.count("d = = ") == 3


def test_distance_for_programs(call: Call) -> None:
    record = json.loads(call("distance", "a b", "b a", "--units=words", "--transposition=1", "--all", "--json")[1])
    assert (record["distance"], record["count"], record["table"][2]) == (1.0, 1, [2.0, 1.0, 1.0])
    assert record["alignments"] == [[{"kind": "transpose", "source": ["a", "b"], "target": ["b", "a"], "cost": 1.0}]]


def test_distance_draws(tmp_path: Path, call: Call) -> None:
    assert call("distance", "a", "b", f"--out={tmp_path / 'page.html'}") == (0, "", "")
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_distance_writes_one_thing(tmp_path: Path, call: Call) -> None:
    status, out, err = call("distance", "a", "b", f"--out={tmp_path / 'page.html'}", "--json")
    assert (status, out) == (2, "")
    assert "--out draws the table and --json writes it for programs: leave out one of them" in err
    assert list(tmp_path.iterdir()) == []


def test_distance_breaks_no_table_that_is_too_wide(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    status, out, err = call("distance", "a" * 60, "b" * 60)
    assert status == 0
    assert out.startswith("distance 60, 1 optimal alignment\n")
    assert "the table takes 308 columns and the terminal has 200: see it with --out FILE.html" in err


def test_data_shows_what_a_run_would_see(tiny: dict[str, Any], call: Call) -> None:
    of_data = {key: value for key, value in tiny.items() if key.startswith("data.")}
    status, out, _ = call("data", "reverse", *as_sets(of_data))
    assert status == 0
    assert "120" in out


def test_data_of_a_conll_file(tmp_path: Path, call: Call) -> None:
    rows = tmp_path / "sentences.conll"
    rows.write_text("dogs\tNOUN\nbark\tVERB\n\ndogs\tNOUN\nbark\tVERB\n\ncats\tNOUN\n")
    status, out, _ = call("data", rows, "--out", tmp_path)
    assert status == 0
    assert "train: 3 pairs" in out
    assert "1 duplicate pair" in out


@pytest.mark.parametrize("name", ["pairs.tsv", "PAIRS.TSV", "targets.TXT"])
def test_data_of_a_file_of_pairs(name: str, tmp_path: Path, call: Call) -> None:
    rows = tmp_path / name
    rows.write_text("ab\tA B\nc\tC\nc\tC\n")
    status, out, _ = call("data", rows, "--out", tmp_path, "--set", "data.units.target=symbols")
    assert status == 0
    assert "train: 3 pairs" in out
    assert "1 duplicate pair" in out
