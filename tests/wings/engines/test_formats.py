"""Runs of format 1, which later versions promise to load (CHANGELOG.md): each gives the outputs and log-probabilities
that it had when it was made. A new format gets a folder of its own in `formats`, and these runs stay.

`python tests/wings/engines/test_formats.py` writes `expected.json` from the runs. Only a change that CHANGELOG.md
names, such as a corrected search, is a reason for that.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import transduce

FORMAT = Path(__file__).parent / "formats" / "1"
SOURCES = {
    "reverse": ["abc", "stressed", "hello"],
    "labels": ["fine nice film", "dull poor film", "okay film"],
    "tags": ["the dog runs", "a cat sees the dog"],
    "ctc": ["abc", "jihg"],
    "mixture": ["abc", "jihg"],
}
TEXTS = ["the dog runs", "cat cat a"]  # for the language model


def outputs(name: str) -> list[list[Any]]:
    """What a run says: for each source, the best output and its log-probability; for a text, its log-probability."""
    model = transduce.load(FORMAT / f"{name}.zip", device="cpu")
    if name == "language":
        return [
            [text, each.log_prob] for text, each in zip(TEXTS, model.score([("", text) for text in TEXTS]), strict=True)
        ]
    return [[found[0].text, found[0].log_prob] for found in model.predict(SOURCES[name])]


@pytest.mark.parametrize("name", [*SOURCES, "language"])
def test_a_run_of_format_1_says_what_it_said(name: str) -> None:
    expected = json.loads((FORMAT / "expected.json").read_text("utf-8"))[name]
    found = outputs(name)
    assert [text for text, _ in found] == [text for text, _ in expected]
    assert [value for _, value in found] == pytest.approx([value for _, value in expected], rel=1e-4)


@pytest.mark.slow
def test_training_of_format_1_goes_on(tmp_path: Path, call: Callable[..., tuple[int, str, str]]) -> None:
    shutil.unpack_archive(FORMAT / "whole-run.zip", tmp_path)
    run = tmp_path / "reverse"
    status, _, err = call("train", "reverse", "--out", str(run), "--resume", "--set", "training.steps=303")
    assert status == 0, err
    assert "update 303" in err
    assert "have changed" not in err


if __name__ == "__main__":
    found = {name: outputs(name) for name in (*SOURCES, "language")}
    (FORMAT / "expected.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
