"""What a training run tells: to people's own loggers, the progress bar, files.

Subclass ``Callback`` and hand it to ``transduce.train(..., callbacks=[mine])``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transduce.files import append_line, write_lines
from transduce.runs.replacement import forget_replaced


@dataclass(frozen=True)
class Update:
    """Some updates, up to number ``step``: means a target token of the training loss, of nll and of the other ``parts``
    that the objective names, the gradient's norm before clipping, the learning rate, non-pad target tokens per second,
    the share of the budget used."""

    step: int
    loss: float
    nll: float
    norm: float
    rate: float
    tokens_per_second: float
    progress: float
    seconds: float
    parts: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Validated:
    """A validation: mean loss a token, the metrics' scores, and whether it is the best so far."""

    step: int
    loss: float
    metrics: dict[str, float]
    best: bool
    seconds: float
    what: str = "valid"  # or "average": the average of the last models


@dataclass(frozen=True)
class Started:
    """A run that is about to train, after update ``step``. A model that is counted has no ``parameters`` yet.

    ``events`` counts the updates and validations that were reported until the checkpoint, from which it goes on; None
    if that is not known.
    """

    run: Path
    parameters: int
    step: int
    device: str
    precision: str
    report: tuple[str, ...] = ()
    events: int | None = None


@dataclass(frozen=True)
class Saved:
    """A checkpoint (best, last or average) that was written after update ``step``."""

    checkpoint: str
    step: int


@dataclass(frozen=True)
class Finished:
    """Why training ended (budget, patience, a signal's or an exception's name), the last update and the best one.

    ``validating`` are those of its seconds in which it was validated.
    """

    run: Path
    reason: str
    step: int
    best_step: int
    seconds: float
    validating: float = 0.0


class Callback:
    """Does nothing; override what interests you."""

    def on_start(self, started: Started) -> None: ...

    def on_update(self, update: Update) -> None: ...

    def on_validation(self, validated: Validated) -> None: ...

    def on_checkpoint(self, saved: Saved) -> None: ...

    def on_finish(self, finished: Finished) -> None: ...


class ForgetReplaced(Callback):
    """Deletes the run that is overwritten, once the new one has its first checkpoint."""

    def __init__(self, run: Path) -> None:
        self.run = run

    def on_checkpoint(self, saved: Saved) -> None:
        forget_replaced(self.run)


class JsonLines(Callback):
    """metrics.jsonl: one object per event. A run that goes on from a checkpoint drops the events after it, because
    they come again."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_start(self, started: Started) -> None:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        kept = [line for line in lines if _whole(line) and json.loads(line)["step"] <= started.step]
        write_lines(self.path, kept[: started.events])

    def on_update(self, update: Update) -> None:
        self._write({"event": "update", **_plain(update)})

    def on_validation(self, validated: Validated) -> None:
        self._write({"event": "validation", **_plain(validated)})

    def _write(self, record: dict[str, Any]) -> None:
        append_line(self.path, json.dumps(record))


class TensorBoard(Callback):
    """TensorBoard events in the run directory; needs the extra ``tensorboard``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_start(self, started: Started) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer: Any = SummaryWriter(str(self.folder), purge_step=started.step + 1)

    def on_update(self, update: Update) -> None:
        told = {name: getattr(update, name) for name in ("loss", "nll", "norm", "rate", "tokens_per_second")}
        for name, value in {**told, **update.parts}.items():
            self.writer.add_scalar(f"train/{name}", value, update.step)

    def on_validation(self, validated: Validated) -> None:
        for name, value in {"loss": validated.loss, **validated.metrics}.items():
            self.writer.add_scalar(f"{validated.what}/{name}", value, validated.step)

    def on_finish(self, finished: Finished) -> None:
        self.writer.close()


def _plain(event: Any) -> dict[str, Any]:
    return {name: _rounded(value) for name, value in vars(event).items()}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _whole(line: str) -> bool:
    """Not cut off by a kill."""
    try:
        return "step" in json.loads(line)
    except ValueError:
        return False
