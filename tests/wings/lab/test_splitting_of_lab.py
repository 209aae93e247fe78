"""What the wing lab adds to test_splitting.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from test_splitting import rehearse, small_memory

from transduce import api
from transduce.core.errors import UserError
from transduce.training.request import TrainingRequest
from transduce.training.splitting import padded_tokens
from transduce.wings.lab import dry_run


def test_a_dry_run_tells_the_fewest_threads_that_are_as_fast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six threads are 4 % faster than four, which is no reason to take two more cores."""
    now = [6]
    monkeypatch.setattr(torch, "get_num_threads", lambda: now[0])
    monkeypatch.setattr(torch, "set_num_threads", lambda count: now.__setitem__(0, count))
    seconds = {1: 0.2, 2: 0.15, 4: 0.125, 6: 0.12}  # of a batch; two make an update
    monkeypatch.setattr(dry_run._Rehearsal, "seconds", lambda self, batches: seconds[now[0]])
    told = rehearse(tmp_path)
    assert (
        "threads: an update takes 0.400 s with 1, 0.300 s with 2, 0.250 s with 4, 0.240 s with 6: --threads 4" in told
    )
    assert any(line.startswith("an update takes 0.240 s") for line in told)
    assert now == [6]


def test_the_largest_budget_is_bounded_by_the_free_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry_run, "free_memory", lambda device: 100.0)
    monkeypatch.setattr(dry_run._Rehearsal, "memory", lambda self, batch: 10 + 0.25 * padded_tokens(batch))
    told = rehearse(tmp_path, **{"training.batching.tokens": 35})
    budget = int(re.search(r"tokens = (\d+)", told[-1])[1])  # type: ignore[index]
    free = float(re.search(r"of the ([\d.,]+) MiB", told[-1])[1])  # type: ignore[index]
    assert budget == pytest.approx((0.8 * free - 10) / 0.25, abs=5)


def test_a_dry_run_measures_and_writes_no_run(tmp_path: Path) -> None:
    told = rehearse(tmp_path)
    assert not (tmp_path / "run").exists()
    assert told[0].startswith("60 pairs, ")
    assert "the budget (steps) ends after about 8 updates" in told[0]
    found = re.match(r"an update takes 0\.\d+ s; the largest batch has (\d+) padded tokens", told[1])
    assert found
    assert int(found[1]) <= 80
    assert "a batch has all pairs" in told[-1]
    with pytest.raises(UserError, match="a counted model"):
        api.dry_run(TrainingRequest("g2p-joint", tmp_path / "run"))


def test_a_budget_that_does_not_fit_is_halved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_memory(monkeypatch, 100)
    told = rehearse(tmp_path, **{"training.batching.tokens": 35})
    assert "training.batching.tokens = 70 is the largest found" in told[-1]
    assert "140 does not fit" in told[-1]
