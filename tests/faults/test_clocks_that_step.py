"""The clock of the machine is set back and forth while a command works: budgets, deadlines and results stay."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import pytest

from transduce import Request, api, load
from transduce.runs.training_state import read_state
from transduce.wings.serving.scheduler import Scheduler


@pytest.fixture
def stepping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock of the machine finds another year. Monotonic clocks go on, as POSIX promises."""
    years = itertools.cycle((0.0, 2e9, -1e9, 4e9))
    monkeypatch.setattr(time, "time", lambda: 1e9 + next(years))


def test_training_by_minutes_is_not_ended_by_the_clock(tiny: dict[str, Any], tmp_path: Path, stepping: None) -> None:
    api.train("reverse", tmp_path / "run", tiny | {"training.minutes": 30}, device="cpu", progress=False)
    assert read_state(tmp_path / "run" / "checkpoints" / "last").step == tiny["training.steps"]


def test_no_request_is_late_because_the_clock_was_set(trained: Path, stepping: None) -> None:
    model = load(trained, device="cpu")
    with Scheduler(model) as scheduler:
        found = [scheduler.submit(Request(text), seconds=3600) for text in ("abc", "", "ba")]
        assert [each.result(60).best.text for each in found] == model(["abc", "", "ba"])
