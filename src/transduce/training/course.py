"""The course of a training: how far it is, by its state and its clock, and who is told of its events."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from transduce.data.base import Feed
from transduce.runs.layout import Checkpoint
from transduce.runs.training_state import State
from transduce.training.budget import ValidationTime
from transduce.training.callbacks import Callback, Finished, Notice, Saved, Update, Validated
from transduce.training.curve import Curve
from transduce.training.settings import Training


@dataclass
class Course:
    """How far a training is. Its ``state`` is replaced as training proceeds. The epochs of ``batches`` and the seconds
    of ``clock`` count against the budget. ``callbacks`` are told each event, in their order.
    """

    training: Training
    batches: Feed
    state: State
    callbacks: Sequence[Callback] = ()
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.began = self.clock() - self.state.seconds

    @property
    def seconds(self) -> float:
        return self.clock() - self.began

    @property
    def epochs(self) -> float:
        place = self.state.place
        return place.epoch + min(place.batch / self.batches.per_epoch, 1.0)

    @property
    def progress(self) -> float:
        """The used share of the budget; 1 or more at its end."""
        return self.training.budget.progress(self.state.step, self._counted, self.seconds, self.state.reserve)

    @property
    def out_of_patience(self) -> bool:
        patience = self.training.validation.patience
        return patience is not None and self.state.stale >= patience

    @property
    def validation_time(self) -> ValidationTime:
        """The seconds that validation may take, by the speed of the updates so far."""
        share, updating = self.training.validation.share, self.seconds - self.state.validating
        whole = self.training.budget.whole_seconds(self.state.step, self._counted, updating, share)
        return ValidationTime(whole, share, 2 if self.training.average > 1 else 1)

    @property
    def curve(self) -> Curve:
        """The validations so far. A run of an older version has kept only the last ones."""
        curve, values = self.state.curve, self.state.validations
        values = values[len(values) - len(curve) :]
        return Curve([step for step, _ in curve], values, [loss for _, loss in curve], self.state.start)

    @property
    def _counted(self) -> float:
        """The epochs, 0 if the budget has none: counting batches takes time."""
        return 0.0 if self.training.epochs is None else self.epochs

    # ------------------------------------------------------------------ events

    def updated(self, update: Update) -> None:
        self._count_event()
        for callback in self.callbacks:
            callback.on_update(update)

    def validated(self, validated: Validated) -> None:
        self._count_event()
        for callback in self.callbacks:
            callback.on_validation(validated)

    def notice(self, text: str) -> None:
        self._count_event()
        for callback in self.callbacks:
            callback.on_notice(Notice(self.state.step, text))

    def saved(self, checkpoint: Checkpoint) -> None:
        for callback in self.callbacks:
            callback.on_checkpoint(Saved(checkpoint, self.state.step))

    def finished(self, finished: Finished) -> None:
        for callback in self.callbacks:
            callback.on_finish(finished)

    def _count_event(self) -> None:
        """Counts a line of metrics.jsonl before it is written, so that a resumed run can drop the lines after its
        checkpoint. It is a no-op if training continued from a checkpoint without a count.
        """
        if self.state.events is not None:
            self.state = replace(self.state, events=self.state.events + 1)
