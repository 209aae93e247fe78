"""What the wing looking adds to test_with_counts.py."""

from __future__ import annotations

from pathlib import Path

import torch
from test_with_counts import PAIRS, TINY, Report

from transduce import api
from transduce.runs.loading import load
from transduce.training.request import TrainingRequest
from transduce.wings.looking.inspection.sentence import read_sentence
from transduce.wings.looking.reports.sentence import sentence_page


def test_a_run_counts_first_and_keeps_its_counts(tmp_path: Path) -> None:
    run, lines = tmp_path / "run", list[str]()
    api.train_run(TrainingRequest("g2p-small", run, TINY, PAIRS), progress=False, callbacks=[Report(lines)])
    assert "joint-ngram is counted, in " in lines[-1]
    counted = load(run).model.models[1]
    assert len(counted.units)
    found = read_sentence("run", load(run), "abb")
    assert [part.name for part in found.parts] == ["seeds", "joint-ngram"]
    assert found.units is not None
    assert "".join(source for source, _ in found.units.pieces) == "abb"
    page = sentence_page([found])
    assert "<h2>Models</h2>" in page
    assert "<h2>Units</h2>" in page
    api.train_run(TrainingRequest("g2p-small", run, {**TINY, "training.steps": 6}, PAIRS, resume=True), progress=False)
    assert torch.equal(load(run).model.models[1].units, counted.units)
