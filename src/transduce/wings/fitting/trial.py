"""One candidate on one view of the data, in a process of its own: ``python -m`` this module trains it up to a share of
its budget, and measures a finished one on the validation pairs.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from transduce import api
from transduce.core.config import Table
from transduce.core.files import write_text
from transduce.core.text_files import read_json, read_text
from transduce.metrics.base import metric
from transduce.runs.layout import ASKED, CHECKPOINTS, METRICS, STATE
from transduce.runs.loading import load
from transduce.runs.lock import wait_until_free
from transduce.runs.run import Run
from transduce.training.budget import CLOCKS
from transduce.training.callbacks import Callback, Update, Validated
from transduce.wings.lab.sweeps.processes import end_with_parent

RESULT = "trial.json"
PACE = "pace.json"
PROBED = 4.0  # seconds


@dataclass(frozen=True)
class Result:
    """A finished trial: the scores on the validation pairs by the run's own search, and its ``outputs`` for them.

    ``seconds`` of processor time make one output, and training took ``minutes``. ``size`` is in bytes.
    ``notice`` is what training said of its curve, such as that it still rises; "" for nothing.
    """

    scores: dict[str, float]
    outputs: list[str]
    seconds: float
    minutes: float
    updates: int
    parameters: int
    size: int
    notice: str = ""

    @classmethod
    def read(cls, run: Path) -> Result | None:
        """The result in the folder of a trial; None if it is not finished."""
        return cls(**read_json(run / RESULT)) if (run / RESULT).exists() else None


class Pause(Callback):
    """Ends training after the first validation from update ``step`` on, as a signal would: with a checkpoint. Training
    goes on from it exactly.
    """

    def __init__(self, step: int) -> None:
        self.step, self.paused = step, False

    def on_validation(self, validated: Validated) -> None:
        if validated.what == "valid" and validated.step >= self.step and not self.paused:
            self.paused = True
            signal.raise_signal(signal.SIGTERM)


class Probe(Callback):
    """Ends training after ``PROBED`` seconds, and keeps the seconds of an update."""

    def __init__(self) -> None:
        self.seconds: float | None = None

    def on_update(self, update: Update) -> None:
        if update.seconds >= PROBED and self.seconds is None:
            self.seconds = update.seconds / update.step
            signal.raise_signal(signal.SIGTERM)


def scores_until(run: Path, step: int, name: str) -> list[float]:
    """The values of a metric in the validations of a trial up to the first one from update ``step`` on."""
    if not (run / METRICS).exists():
        return []
    events = [json.loads(line) for line in read_text(run / METRICS).split("\n") if line]
    found = []
    for event in events:
        if event["event"] == "validation" and event["what"] == "valid":
            value = event["loss"] if name == "loss" else event["metrics"].get(name)
            found += [] if value is None else [value]
            if event["step"] >= step:
                break
    return found


def progress(run: Path) -> float | None:
    """The share of its budget that a trial has used, from its last report; None before the first one."""
    try:
        events = [json.loads(line) for line in read_text(run / METRICS).split("\n")[:-1]]
    except (OSError, ValueError):  # not begun, or just being written
        return None
    return next((float(event["progress"]) for event in reversed(events) if "progress" in event), None)


def command(run: Path, threads: int, device: str, until: int | None) -> list[str]:
    """The command that runs ``main`` in another process. ``until`` is the update to pause at, None for the end."""
    asked = {"threads": threads, "device": device, "until": until}
    return [sys.executable, "-m", __name__, str(run), json.dumps(asked)]


def probe(run: Path, threads: int, device: str) -> list[str]:
    """The command that measures the ``pace`` of a training in another process."""
    return [sys.executable, "-m", __name__, str(run), json.dumps({"threads": threads, "device": device, "probe": True})]


def pace(run: Path) -> float | None:
    """The seconds of an update that ``probe`` measured; None if it failed. A training that ended before has no cost."""
    return float(read_json(run / PACE)["seconds"]) if (run / PACE).exists() else None


def main(arguments: Sequence[str]) -> None:
    """Trains or goes on with the run that the folder's asked.toml describes. If training reaches its end, and there are
    validation pairs, measures the run and writes the result.
    """
    run, asked = Path(arguments[0]), json.loads(arguments[1])
    wait_until_free(run)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    where = {"threads": asked["threads"], "device": asked["device"]}
    if asked.get("probe"):
        _probe(run, where)
        return
    pause = Pause(asked["until"]) if asked["until"] is not None else None
    try:
        api.train(run / ASKED, run, resume=True, callbacks=[pause] if pause else [], progress=False, **where)
    except SystemExit:
        if pause is None or not pause.paused:
            raise
        return
    if "valid" in Run.read(run).settings["data"]:
        write_text(run / RESULT, json.dumps(asdict(measured(run, asked["device"])), ensure_ascii=False))


def _probe(run: Path, where: Table) -> None:
    measuring = Probe()
    try:
        api.train(run / ASKED, run, resume=True, callbacks=[measuring], progress=False, **where)
    except SystemExit:
        if measuring.seconds is None:
            raise
    write_text(run / PACE, json.dumps({"seconds": measuring.seconds or 0.0}))


def measured(run: Path, device: str = "auto") -> Result:
    """The result of a finished run, measured on its validation pairs."""
    transducer = load(run, device=device)
    opened = Run.open(run)
    examples = opened.examples("valid")
    metrics = [metric(name) for name in transducer.settings["metrics"]]
    transducer([example.source for example in examples[:1]] if any(e.source for e in examples) else [])
    found = transducer.evaluate(examples, metrics, clock=CLOCKS["processor"], told=False)
    state = read_json(run / CHECKPOINTS / "last" / STATE)
    return Result(
        scores=found.scores,
        outputs=[each.text for each in found.predictions],
        seconds=found.seconds / len(examples),
        minutes=state["seconds"] / 60,
        updates=state["step"],
        parameters=sum(parameter.numel() for parameter in transducer.model.parameters()),
        size=opened.weights("best").stat().st_size,
        notice=_notice(run),
    )


def _notice(run: Path) -> str:
    events = [json.loads(line) for line in read_text(run / METRICS).split("\n") if line]
    told = [event["text"] for event in events if event["event"] == "notice"]
    return next((text for text in reversed(told) if "rises" in text or "learned nothing" in text), "")


if __name__ == "__main__":
    end_with_parent()
    main(sys.argv[1:])
