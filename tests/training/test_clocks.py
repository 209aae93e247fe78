"""The clocks that count the minutes of a training."""

from __future__ import annotations

import json
import time

import pytest

from transduce import api
from transduce.training.callbacks import Callback, Finished, Update, Validated

SLEEP, REPORTS = 0.06, 3


class Sleeper(Callback):
    def on_update(self, update: Update) -> None:
        time.sleep(SLEEP)


def seconds(run, tiny, clock):
    """The seconds that a run counts while a callback sleeps after every report."""
    once = {f"training.{key}": 10 * REPORTS for key in ("steps", "validation.every", "checkpoint_every")}
    settings = tiny | once | {"training.clock": clock}
    api.train("reverse", run, settings, callbacks=[Sleeper()], progress=False)
    return json.loads((run / "checkpoints" / "last" / "state.json").read_text())["seconds"]


def test_the_wall_clock_counts_sleep(tiny, tmp_path):
    assert seconds(tmp_path / "run", tiny, "wall") > SLEEP * REPORTS


def test_the_processor_clock_does_not(tiny, tmp_path):
    began = time.monotonic()
    counted = seconds(tmp_path / "run", tiny, "processor")
    assert 0 < counted < time.monotonic() - began - SLEEP * REPORTS


class SlowValidation(Callback):
    def on_validation(self, validated: Validated) -> None:
        time.sleep(SLEEP)

    def on_finish(self, finished: Finished) -> None:
        self.finished = finished


def test_what_validation_takes_is_counted_also_where_a_run_goes_on(tiny, tmp_path):
    first, second = SlowValidation(), SlowValidation()
    for callback, steps in ((first, 4), (second, 8)):
        settings = tiny | {"training.steps": steps, "training.validation.every": 2}
        api.train(
            "reverse", tmp_path / "run", settings, callbacks=[callback], progress=False, resume=callback is second
        )
    before, after = (callback.finished for callback in (first, second))
    assert 3 * SLEEP <= before.validating < before.seconds  # two validations, and one of the average
    assert before.validating + 3 * SLEEP <= after.validating < after.seconds
    kept = json.loads((tmp_path / "run" / "checkpoints" / "last" / "state.json").read_text())["validating"]
    assert kept == pytest.approx(after.validating)
