"""Reports of updates: the loop's numbers since the last report, as one event."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

from transduce.core.errors import UserError
from transduce.training import messages
from transduce.training.callbacks import Update
from transduce.training.course import Course
from transduce.training.curve import DivergenceError
from transduce.training.keeper import Keeper
from transduce.training.updating import MadeUpdate

REPORT_EVERY = 10  # updates between reports; reading the loss makes a GPU wait


class Reports:
    """Collects updates and tells the callbacks of them. ``last_loss`` is the loss of the last report, None before."""

    def __init__(self, course: Course, keeper: Keeper) -> None:
        self.course, self.keeper = course, keeper
        self.last_loss: float | None = None
        self._updates: list[MadeUpdate] = []
        self._began = course.clock()

    def add(self, made: MadeUpdate) -> None:
        """Adds an update, and sends a report after each ``REPORT_EVERY``."""
        self._updates.append(made)
        if made.step % REPORT_EVERY == 0:
            self.send()

    def restart(self) -> None:
        """Begins the time of the next report now, so that a validation does not count as slow updates."""
        self._began = self.course.clock()

    def send(self) -> None:
        """Sends the updates since the last report as one ``Update``, if there are any. Raises DivergenceError if one of
        their losses or gradients is not finite, and UserError if no pair of a whole epoch could be learned from.
        """
        if not self._updates:
            return
        course, updates, self._updates = self.course, self._updates, []
        for update in updates:
            if not math.isfinite(float(update.total) + float(update.norm)):
                raise DivergenceError(messages.diverged(update, self.keeper.checkpoints / "last"))
        if course.state.tokens == 0 and course.epochs >= 1:
            raise UserError(messages.NOTHING_LEARNED)
        count, now = sum(update.count for update in updates), course.clock()
        mean = count or math.nan  # a mean over no token is NaN
        report = Update(
            step=course.state.step,
            loss=sum(float(update.total) for update in updates) / mean,
            nll=sum(float(update.nll) for update in updates) / mean,
            norm=sum(float(update.norm) for update in updates) / len(updates),
            rate=updates[-1].rate,
            tokens_per_second=count / max(now - self._began, 1e-9),
            progress=min(course.progress, 1.0),
            seconds=course.seconds,
            parts={name: sum(float(update.parts[name]) for update in updates) / mean for name in updates[0].parts},
            tallies=dict(sum((update.tallies for update in updates), Counter())),
        )
        self._began, self.last_loss = now, report.nll
        if course.state.start is None and updates[0].count:
            course.state = replace(course.state, start=float(updates[0].nll) / updates[0].count)
        course.updated(report)
