"""The checkpoints of a training: who writes them, and who is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

from torch import Tensor

from transduce.core.files import sync
from transduce.runs.checkpoints import Rank, save_weights_alone, saved_step
from transduce.runs.layout import CHECKPOINTS, METRICS, Checkpoint
from transduce.runs.recent_weights import average_recent, forget_recent, keep_recent, recent_steps
from transduce.runs.training_state import save_training
from transduce.training.callbacks import Finished
from transduce.training.course import Course
from transduce.training.updating import Updater


class Keeper:
    """Writes the checkpoints of the run directory ``run``, and tells the callbacks of them. Only the first process of
    a crew writes.

    ``texts`` are other files of the checkpoint last, by name. ``kept`` ranks the weights that the checkpoint best has
    now; None if there are none, or if they were chosen by another measure.
    """

    def __init__(
        self, run: Path, course: Course, updater: Updater, texts: Mapping[str, str], kept: Rank | None = None
    ) -> None:
        self.run, self.checkpoints = run, run / CHECKPOINTS
        self.course, self.updater, self.texts, self.kept = course, updater, texts, kept
        self.model, self.crew = updater.trainable.model, updater.crew

    def last(self) -> None:
        """Saves the checkpoint last, from which training can continue."""
        course = self.course
        course.state = replace(course.state, seconds=course.seconds)
        with self.updater.whole() as moments:
            if not self.crew.first:
                return
            if (self.run / METRICS).exists():  # what was measured until here must not be lost before the weights
                sync(self.run / METRICS)
            save_training(self.checkpoints / "last", self.model, moments, course.state, self.texts, self.updater.carry)
            course.saved("last")
            forget_recent(self.checkpoints, course.state.recent)

    def best(self, rank: Rank, about: Mapping[str, object]) -> None:
        """Saves the weights as the checkpoint best, together with their rank, unless the weights there rank higher.

        The weights there can be newer than the state. A killed training continues from its last state, and may have
        saved better weights after it.
        """
        if rank.better_than(self.kept) or rank == self.kept:
            self.weights("best", {**about, "rank": asdict(rank)})
            self.kept = rank

    def last_as_best(self) -> None:
        """Saves the last model as the best, if nothing has measured one."""
        step = self.course.state.step
        self.weights("best", {"step": step, "what": "last"})
        self.course.state = replace(self.course.state, best_step=step)

    def weights(self, checkpoint: Checkpoint, about: Mapping[str, object]) -> None:
        """Saves the model's weights alone."""
        if self.crew.first:
            save_weights_alone(self.checkpoints / checkpoint, self.model, dict(about))
        self.course.saved(checkpoint)

    def for_average(self) -> None:
        """Keeps the weights for the average of the last models, if training has one."""
        state, count = self.course.state, self.course.training.average
        if count > 1:
            if self.crew.first:
                keep_recent(self.checkpoints, self.model, state.step)
            self.course.state = replace(state, recent=recent_steps(state.recent, state.step, count))

    def average(self, steps: tuple[int, ...]) -> dict[str, Tensor]:
        """The average of the weights after these updates, which were kept."""
        self.crew.wait()  # until the first process has written the weights that all of them read
        return average_recent(self.checkpoints, steps)

    def finished(self, reason: str) -> Finished:
        """How training ended, from the checkpoints that are there."""
        best, last = (saved_step(self.checkpoints / name) for name in ("best", "last"))
        course = self.course
        return Finished(self.run, reason, course.state.step, best, course.seconds, course.state.validating, last)
