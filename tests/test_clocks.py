"""What the minutes of a training are counted by."""

from __future__ import annotations

import json
import time

from transduce import api
from transduce.training.callbacks import Callback, Update

SLEEP, REPORTS = 0.1, 5


class Sleeper(Callback):
    def on_update(self, update: Update) -> None:
        time.sleep(SLEEP)


def seconds(run, clock):
    """By a run's own account, where every report is followed by a sleep."""
    settings = {"training.steps": 10 * REPORTS, "training.clock": clock, "training.validation.times": 1}
    api.train("reverse", run, settings=settings, callbacks=[Sleeper()], progress=False)
    return json.loads((run / "checkpoints" / "last" / "state.json").read_text())["seconds"]


def test_the_wall_clock_counts_sleep(tmp_path):
    assert seconds(tmp_path / "run", "wall") > SLEEP * REPORTS


def test_the_processor_clock_does_not(tmp_path):
    began = time.monotonic()
    counted = seconds(tmp_path / "run", "processor")
    assert 0 < counted < time.monotonic() - began - SLEEP * REPORTS
