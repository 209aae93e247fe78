"""Training by counting: passes of expectation maximisation instead of gradient updates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from torch import nn

from transduce.core.config import Table
from transduce.core.errors import UserError
from transduce.core.protocols import can
from transduce.core.registry import model_name
from transduce.data.pairs import Pairs
from transduce.models.weights import set_weights, weights
from transduce.runs.checkpoints import save_weights_alone, saved_step
from transduce.runs.layout import CHECKPOINTS, Checkpoint
from transduce.training.budget import CLOCKS
from transduce.training.callbacks import Callback, Finished, Saved, TuningStep, Update, Validated
from transduce.training.counted import Counted, Counts, PartlyCounted
from transduce.training.interruption import Interruption
from transduce.training.settings import Training
from transduce.training.tuning import Tuned
from transduce.training.validation import Judgement

PASSES = 20  # largest number of passes for a part of a model; a small gain usually ends them earlier


def count_parts(model: nn.Module, pairs: Pairs, gain: float, given: nn.Module | None = None) -> tuple[str, ...]:
    """Counts the counted parts of a model from the training pairs, in place. Returns lines for people, none if the
    model has no such parts.

    Passes end as in ``Counting``, or after ``PASSES`` passes. A part that cannot count these pairs stays empty, and a
    line says why. ``given`` is a model that has counted the same pairs with the same settings: a part of its class
    takes its counts.
    """
    parts = cast(PartlyCounted, model).counted_parts() if can(type(model), PartlyCounted) else ()
    return tuple(line for part in parts for line in _count_part(part, pairs, gain, given))


def _count_part(part: Counted, pairs: Pairs, gain: float, given: nn.Module | None) -> tuple[str, ...]:
    name, module = model_name(type(part)), cast(nn.Module, part)
    if given is not None and type(given) is type(module):
        set_weights(module, weights(given), "init.run")
        return (f"{name} has the counts of init.run, which counted the same pairs",)
    try:
        counts = part.counts(pairs)
    except UserError as error:
        return (f"{name} is left out: {error}",)
    before, passes = -math.inf, 0
    while passes < PASSES:
        log_prob = counts.reestimate()
        passes += 1
        if log_prob - before <= gain * abs(log_prob):
            break
        before = log_prob
    counts.store()
    return (*counts.report, f"{name} is counted, in {passes} passes")


@dataclass
class Counting:
    """The training of a counted model. A call trains and returns ``Finished``.

    It makes passes over all pairs until the budget ends or a pass gains too little. Then it tunes the weights if there
    is a ``tuner``, and validates if there is a ``judge``. Last it writes the checkpoints ``best`` and ``last``, which
    are the same.

    A pass gains too little if the log-probability of the pairs rises by at most a share ``training.gain`` of its size.
    A pass counts as one update and one epoch. A signal ends the passes or the tuning, and then nothing is saved,
    because counting the same pairs again gives the same counts. ``texts`` are other files of the checkpoints, by name.
    """

    model: nn.Module
    counts: Counts
    training: Training
    judge: Callable[[], Judgement] | None
    tuner: Callable[[], Iterator[Tuned]] | None
    callbacks: Sequence[Callback]
    run: Path
    texts: Mapping[str, str]

    def __call__(self) -> Finished:
        self.clock = CLOCKS[self.training.clock]
        self.began = self.clock()
        step, reason, self.validating = 0, "budget", 0.0
        try:
            with Interruption() as interruption:
                step = self._passes(interruption)
                if not interruption.signal:
                    self.counts.store()
                    self._tune(step, interruption)
                if not interruption.signal:
                    self._save(step)
                reason = interruption.signal or reason
        except BaseException as error:
            reason = type(error).__name__
            raise
        finally:
            best, last = (saved_step(self.run / CHECKPOINTS / name) for name in ("best", "last"))
            finished = Finished(self.run, reason, step, best, self.clock() - self.began, self.validating, last)
            for callback in self.callbacks:
                callback.on_finish(finished)
        return finished

    def _passes(self, interruption: Interruption) -> int:
        before, step, seconds = -math.inf, 0, 0.0
        while not interruption.signal and self.training.budget.progress(step, step, seconds) < 1:
            log_prob = self.counts.reestimate()
            step, passed, seconds = step + 1, seconds, self.clock() - self.began
            self._report(step, log_prob, seconds, seconds - passed)
            if log_prob - before <= self.training.gain * abs(log_prob):
                break
            before = log_prob
        return step

    def _tune(self, step: int, interruption: Interruption) -> None:
        """Tunes the weights if there is a ``tuner``, and reports each iteration to the callbacks. A signal ends it
        after an iteration.
        """
        self.model.eval()
        for tuned in self.tuner() if self.tuner else ():
            seconds = self.clock() - self.began
            for callback in self.callbacks:
                callback.on_tuning(TuningStep(step, tuned.iteration, tuned.metric, tuned.score, tuned.outputs, seconds))
            if interruption.signal:
                return

    def _report(self, step: int, log_prob: float, seconds: float, pass_seconds: float) -> None:
        tokens = self.counts.tokens
        loss = -log_prob / tokens
        progress = min(self.training.budget.progress(step, step, seconds), 1.0)
        update = Update(step, loss, loss, 0.0, 0.0, tokens / max(pass_seconds, 1e-9), progress, seconds)
        for callback in self.callbacks:
            callback.on_update(update)

    def _save(self, step: int) -> None:
        """Validates the model if there are validation data. Saves it as the checkpoints best and last, and calls the
        callbacks. ``last`` comes at the end: with it, a resumed training has nothing left to do.
        """
        about: Table = {"step": step, "what": "counted"}
        self.model.eval()
        if self.judge is not None:
            began = self.clock()
            judgement = self.judge()
            self.validating = self.clock() - began
            about |= {"loss": judgement.loss, **judgement.metrics}
        about |= {"seconds": self.clock() - self.began, "tokens": step * self.counts.tokens}
        checkpoints: tuple[Checkpoint, ...] = ("best", "last")
        for checkpoint in checkpoints:
            save_weights_alone(self.run / CHECKPOINTS / checkpoint, self.model, about, self.texts)
            for callback in self.callbacks:
                callback.on_checkpoint(Saved(checkpoint, step))
            if self.judge is not None and checkpoint == "best":
                validated = Validated(
                    step, judgement.loss, judgement.metrics, True, about["seconds"], cut=judgement.cut
                )
                for callback in self.callbacks:
                    callback.on_validation(validated)
