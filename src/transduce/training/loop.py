"""The training loop, which trains every model that learns by gradients. It knows only the loss of a batch."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from transduce.data.batch_shares import shard
from transduce.training.augmentation import augmented
from transduce.training.callbacks import Finished
from transduce.training.course import Course
from transduce.training.interruption import Interruption
from transduce.training.keeper import Keeper
from transduce.training.reports import Reports
from transduce.training.updating import Updater
from transduce.training.validation_schedule import Validations

SAVES = 10  # checkpoints in a budget, if training does not validate before its end
ENDS = ("budget", "patience")  # reasons after which training does not go on


@dataclass
class Loop:
    """The training loop of every model that learns by gradients. It makes updates, validations and checkpoints until
    the budget ends, patience runs out or a signal arrives. A call trains and returns ``Finished``. It raises
    DivergenceError if the loss or the gradient is no longer finite, and at the end if the best model's loss is far
    above the loss of the untrained model.

    ``course`` has the settings, the batches and the state. ``updater`` has the model and makes its updates,
    ``validations`` measure it, and ``keeper`` writes its checkpoints.

    If the updater's crew has several processes, each of them runs this loop with a part of every batch. All make the
    same updates and validations. Only the first process writes files, and the callbacks must be empty in the others.
    """

    course: Course
    updater: Updater
    keeper: Keeper
    validations: Validations

    def __post_init__(self) -> None:
        self.reports = Reports(self.course, self.keeper)
        self.fetched = self.course.batches.iterate(self.course.state.place)

    def __call__(self) -> Finished:
        try:
            with Interruption() as interruption:
                reason = self._train(interruption)
                if reason in ENDS:
                    self._finish(reason)
                    reason = interruption.signal or reason
            self._save()
            if reason in ENDS:
                self.validations.check_usable(self.reports.last_loss)
        except BaseException as error:
            with suppress(Exception):  # what ended the training is told, and not what fails because of it
                self._close(type(error).__name__)
            raise
        return self._close(reason)

    def _train(self, interruption: Interruption) -> str:
        """Makes updates, with validations and checkpoints between them. Returns the reason for the end."""
        course, every = self.course, self.course.training.checkpoint_every
        self.updater.trainable.train()
        before = course.progress
        while course.progress < 1:
            if self.updater.crew.any(interruption.signal is not None):
                return interruption.signal or "SIGTERM"
            if course.out_of_patience:
                return "patience"
            self._update()
            now = course.progress
            due = self._due(before, now)
            if due and self.validations.before_the_end:
                self._validate()
                now = course.progress  # validations that became due meanwhile are skipped
            if (every and course.state.step % every == 0) or (not every and due):
                self._save()
            before = now
        return "budget"

    def _update(self) -> None:
        """Makes one update from the next ``accumulate`` batches."""
        course, training, crew = self.course, self.course.training, self.updater.crew
        progress, step = course.progress, course.state.step + 1
        crew.draw_own(training.seed, course.state.step)
        batches = []
        for _ in range(training.accumulate):
            batch, place = next(self.fetched)
            batch, counts = shard(batch, crew.rank, crew.world)
            batch = augmented(training.augmentations, batch, place.epoch, training.seed)
            if training.hallucination:
                batch = training.hallucination(batch, place.epoch, training.seed)
            batches.append((batch, counts))
        share = training.schedule(step, progress, course.state.validations)
        made = self.updater(batches, step, progress, share, course.notice)
        course.state = replace(course.state, step=step, place=place, tokens=course.state.tokens + made.count)
        self.reports.add(made)

    def _due(self, before: float, now: float) -> bool:
        """True if training must now validate and, without ``checkpoint_every``, save. If training does not validate
        before its end, it must only save. The progress was ``before`` after the last update, and is ``now``.

        This is due after each ``every`` updates. If ``every`` is not set, it is due when progress passes a multiple of
        1 / ``times``. If training does not validate before its end, ``SAVES`` replaces ``times``. It is never due at
        the end of the budget, because ``_finish`` validates there.
        """
        validation = self.course.training.validation
        if now >= 1:
            return False
        if validation.every is not None:
            return self.course.state.step % validation.every == 0
        times = validation.times if self.validations.before_the_end else SAVES
        return int(now * times) > int(before * times)

    def _validate(self) -> None:
        self.reports.send()
        with self.updater.whole():
            self.validations.now()
        self.reports.restart()

    def _save(self) -> None:
        self.reports.send()
        self.keeper.last()

    def _finish(self, reason: str) -> None:
        """The validations at the end, and what they say. Raises DivergenceError if the last updates have diverged,
        before diverged weights are saved as the best.
        """
        with self.updater.whole():
            self.reports.send()
            self.validations.finish()
        self.validations.conclude(reason == "budget")

    def _close(self, reason: str) -> Finished:
        finished = self.keeper.finished(reason)
        self.course.finished(finished)
        return finished
