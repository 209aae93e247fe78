"""What the wing recipes adds to test_edits.py."""

from __future__ import annotations

from pathlib import Path

from transduce import api
from transduce.core import config
from transduce.core.types import PAD
from transduce.runs.loading import load
from transduce.training.request import TrainingRequest


def test_a_run_keeps_its_copies(tmp_path: Path) -> None:
    pairs = [(word, word.upper() if word == "ba" else word) for word in ("ab", "ba", "abb", "bab")]
    settings = {"training.steps": 2, "training.validation.times": 1, "model.decoder.type": "edits"}
    settings |= {"model.decoder.cell": "lstm", "model.decoder.bridge": "linear", "data.units.target": "characters"}
    run = api.train_run(TrainingRequest("spelling", tmp_path / "run", settings, pairs * 5), progress=False)
    assert config.read(run / "config.toml")["model"]["decoder"]["copies"][:4] == [PAD] * 4
    assert load(run).model.decoder.copies.tolist().count(PAD) < 6  # a and b have a copy
