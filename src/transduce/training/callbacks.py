"""Callbacks: a training run reports its events to loggers, to the progress bar and to files.

Subclass ``Callback`` and pass an instance to ``transduce.train(..., callbacks=[mine])``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from transduce.answers.answer_values import json_text
from transduce.core.files import append_line, write_lines
from transduce.core.text_files import read_text
from transduce.runs.replacement import forget_replaced
from transduce.training.budget import KNOWN_AFTER, Budget


@dataclass(frozen=True)
class Update:
    """The updates since the last report. ``step`` is the number of the last of them, from 1. For a counted model it is
    one pass.

    ``loss``, ``nll`` and the objective's other ``parts`` are means per target token, or per number of a numeric target.
    ``nll`` equals the loss if the objective reports none. ``tallies`` are sums, for example of the pairs ``skipped``.
    ``norm`` is the mean gradient norm before clipping, and ``rate`` the last update's learning rate; both are 0 for a
    counted model. ``tokens_per_second`` counts target tokens without padding. ``progress`` is the used share of the
    budget, at most 1. ``seconds`` are the seconds of the whole training, also before a resumption.
    """

    step: int
    loss: float
    nll: float
    norm: float
    rate: float
    tokens_per_second: float
    progress: float
    seconds: float
    parts: dict[str, float] = field(default_factory=dict)
    tallies: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Validated:
    """A validation after update ``step``. ``loss`` is the mean per target token (or per number of a numeric target),
    without label smoothing.

    ``metrics`` has the scores by name; it is empty if the validation computed only the loss. ``best`` says whether the
    model is the best so far. ``seconds`` are the seconds of the whole training until then. ``what`` says which model
    was validated: "valid" for the current model, "average" for the average of the last models. ``cut`` is the share of
    the outputs that the search ended at its limit, before the model did.
    """

    step: int
    loss: float
    metrics: dict[str, float]
    best: bool
    seconds: float
    what: str = "valid"  # or "average": the average of the last models
    cut: float = 0.0


@dataclass(frozen=True)
class TuningStep:
    """An iteration of tuning, counted from 0. ``score`` is the score by ``metric`` of the outputs that it found on
    data.valid. ``outputs`` is the number of different outputs in all lists so far. ``step`` is the update before
    tuning.
    """

    step: int
    iteration: int
    metric: str
    score: float
    outputs: int
    seconds: float


@dataclass(frozen=True)
class Notice:
    """Advice to the user during training. ``text`` names a setting that does not suit this machine or this budget, and
    a change.
    """

    step: int
    text: str


@dataclass(frozen=True)
class Started:
    """Training will now begin, or continue after update ``step``. ``parameters`` is the number of the model's
    parameters with the frozen ones; 0 for a counted model. ``report`` has lines for people.

    ``events`` is the number of lines in metrics.jsonl at the time of the checkpoint, 0 without a checkpoint. None means
    that they were not counted: by an older version, or for a counted model. ``budget`` is None if nothing is trained.
    """

    run: Path
    parameters: int
    step: int
    device: str
    precision: str
    report: tuple[str, ...] = ()
    events: int | None = None
    budget: Budget | None = None


@dataclass(frozen=True)
class Saved:
    """A checkpoint was written after update ``step``. ``checkpoint`` is its name: best, last or average."""

    checkpoint: str
    step: int


@dataclass(frozen=True)
class Finished:
    """The end of training. ``reason`` is budget, patience, or the name of a signal or of an exception's class. For a
    counted model, "budget" also means that a pass gained too little.

    ``step`` is the number of the last update. ``best_step`` and ``last_step`` are the updates of the checkpoints best
    and last that are in the run now; 0 if there is none. ``seconds`` are of the whole training; ``validating`` is the
    part of them that validations took.
    """

    run: Path
    reason: str
    step: int
    best_step: int
    seconds: float
    validating: float = 0.0
    last_step: int = 0


class Callback:
    """The base class of callbacks. Its methods ignore every event; override those that you need."""

    def on_start(self, started: Started) -> None: ...

    def on_update(self, update: Update) -> None: ...

    def on_validation(self, validated: Validated) -> None: ...

    def on_checkpoint(self, saved: Saved) -> None: ...

    def on_tuning(self, tuned: TuningStep) -> None: ...

    def on_notice(self, notice: Notice) -> None: ...

    def on_finish(self, finished: Finished) -> None: ...


class ForgetReplaced(Callback):
    """Deletes the run that ``run`` overwrites, at the first checkpoint of ``run``. It keeps a run that has other files,
    too.
    """

    def __init__(self, run: Path) -> None:
        self.run = run

    def on_checkpoint(self, saved: Saved) -> None:
        forget_replaced(self.run)


class PaceAdvice(Callback):
    """Warns once, by ``tell``, if the clock will end training long before the updates of the ``budget``. It knows this
    after the first minute of a session, which began after ``began`` seconds of training.
    """

    def __init__(self, budget: Budget, began: float, tell: Callable[[str], None]) -> None:
        self.budget, self.began, self.tell = budget, began, tell
        self.known = False

    def on_update(self, update: Update) -> None:
        if self.known or update.seconds - self.began < KNOWN_AFTER:
            return
        self.known = True
        if line := self.budget.too_slow(update.step, update.seconds):
            self.tell(line)


class JsonLines(Callback):
    """Writes the file ``path``, metrics.jsonl: one JSON object for each report of updates, each validation, each
    iteration of tuning and each notice. A number that is not finite is null.

    When training begins or continues, it drops the lines of events after the checkpoint, because these events will
    occur again. It also drops lines that are incomplete because the process was killed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_start(self, started: Started) -> None:
        lines = read_text(self.path).split("\n") if self.path.exists() else []
        kept = [line for line in lines if _is_complete(line) and json.loads(line)["step"] <= started.step]
        write_lines(self.path, kept[: started.events])

    def on_update(self, update: Update) -> None:
        self._write({"event": "update", **_as_json(update)})

    def on_validation(self, validated: Validated) -> None:
        self._write({"event": "validation", **_as_json(validated)})

    def on_tuning(self, tuned: TuningStep) -> None:
        self._write({"event": "tuning", **_as_json(tuned)})

    def on_notice(self, notice: Notice) -> None:
        self._write({"event": "notice", **_as_json(notice)})

    def _write(self, record: dict[str, object]) -> None:
        append_line(self.path, json_text(record))


def _as_json(event: object) -> dict[str, object]:
    return {name: _rounded(value) for name, value in vars(event).items()}


def _rounded(value: object) -> object:
    """A float with six significant digits, also as a value of a dict; every other value unchanged."""
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _is_complete(line: str) -> bool:
    """True if the line is JSON that has a step. An incomplete line is no JSON."""
    try:
        return "step" in json.loads(line)
    except ValueError:
        return False
