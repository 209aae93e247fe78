"""The training loop, which trains every model that learns by gradients. It knows only the loss of a batch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from transduce.compute.crew import ALONE, Crew
from transduce.core.errors import StoppedError, UserError
from transduce.data.base import Feed
from transduce.data.sharding import shard
from transduce.models.weights import set_weights, weights
from transduce.runs.checkpoints import Rank, best_rank, save_weights_alone, saved_step
from transduce.runs.layout import CHECKPOINTS, Checkpoint
from transduce.runs.recent_weights import average_recent, forget_recent, keep_recent, recent_steps
from transduce.runs.training_state import State, save_training
from transduce.training import messages
from transduce.training.augmentation import augmented
from transduce.training.budget import CLOCKS, KNOWN_AFTER, ValidationTime
from transduce.training.callbacks import Callback, Finished, Notice, Saved, Update, Validated
from transduce.training.curve import Constant, Curve, conclusions, unusable
from transduce.training.interruption import Interruption
from transduce.training.settings import Training
from transduce.training.updating import MadeUpdate, Updater
from transduce.training.validation import Judgement, TooSlowError

SAVES = 10  # checkpoints in a budget, if training does not validate before its end
LEAST_PART = 1e-9  # of the validation data: one batch
REPORT_EVERY = 10  # updates between reports; reading the loss makes a GPU wait


class DivergenceError(StoppedError):
    """The loss or the gradient is no longer finite, or the best model is worse than an untrained one."""


@dataclass
class Loop:
    """The training loop of every model that learns by gradients. It makes updates, validations and checkpoints until
    the budget ends, patience runs out or a signal arrives. A call trains and returns ``Finished``. It raises
    DivergenceError if the loss or the gradient is no longer finite, and at the end if the best model's loss is far
    above the loss of the untrained model.

    ``updater`` has the model and makes its updates. ``judge`` validates the current model. Its arguments limit its
    seconds and the part of its data. If it is None, there are no validation data, and the last model is the best.
    ``texts`` are other files of the checkpoint last, by name. ``state`` is replaced as training proceeds.

    If the ``crew`` has several processes, each of them runs this loop with a part of every batch. All make the same
    updates and validations. Only the first process writes files, and ``callbacks`` must be empty in the others.
    """

    updater: Updater
    batches: Feed
    training: Training
    judge: Callable[[float, float], Judgement] | None
    callbacks: Sequence[Callback]
    run: Path
    texts: Mapping[str, str]
    state: State
    crew: Crew = ALONE

    def __post_init__(self) -> None:
        self.checkpoints = self.run / CHECKPOINTS
        self.trainable = self.updater.trainable
        self.unreported: list[MadeUpdate] = []
        self.fetched: Iterator[Any] = self.batches.iterate(self.state.place)
        self.clock = self.crew.clock(CLOCKS[self.training.clock])
        self.began = self.clock() - self.state.seconds
        self.reported = self.began + self.state.seconds
        self.previous_progress = self.progress  # the progress at the last call of ``_due``
        self.session_began = self.state.seconds
        self.pace_known = self.share_noticed = False
        self.last_loss: float | None = None  # of the last report
        self.constant: Constant | None = None  # as the last validation with a search knows it
        self.kept = best_rank(self.checkpoints) if self.state.step else None  # rank of the weights in checkpoints/best

    # ------------------------------------------------------------- the loop

    def __call__(self) -> Finished:
        try:
            with Interruption() as interruption:
                reason = self._train(interruption)
                if reason in ("budget", "patience"):
                    with self.updater.whole():
                        self._finish()
                    self._conclude(reason)
                    reason = interruption.signal or reason
            self._save()
            self._check_usable(reason)
        except BaseException as error:
            with suppress(Exception):  # what ended the training is told, and not what fails because of it
                self._close(type(error).__name__)
            raise
        return self._close(reason)

    def _close(self, reason: str) -> Finished:
        best, last = (saved_step(self.checkpoints / name) for name in ("best", "last"))
        finished = Finished(self.run, reason, self.state.step, best, self.seconds, self.state.validating, last)
        for callback in self.callbacks:
            callback.on_finish(finished)
        return finished

    def _train(self, interruption: Interruption) -> str:
        self.trainable.train()
        while self.progress < 1:
            if self.crew.any(interruption.signal is not None):
                return interruption.signal or "SIGTERM"
            if self._out_of_patience:
                return "patience"
            self._update()
            step = self.state.step
            self._notice_pace()
            if step % REPORT_EVERY == 0:
                self._report()
            due = self._due()
            if due and self.validates:
                with self.updater.whole():
                    self._validate(self._allowed_seconds)
            every = self.training.checkpoint_every
            if (every and step % every == 0) or (not every and due):
                self._save()
        return "budget"

    @property
    def seconds(self) -> float:
        return self.clock() - self.began

    @property
    def epochs(self) -> float:
        place = self.state.place
        return place.epoch + min(place.batch / self.batches.per_epoch, 1.0)

    @property
    def progress(self) -> float:
        epochs = 0.0 if self.training.epochs is None else self.epochs  # not needed; counting batches takes time
        return self.training.budget.progress(self.state.step, epochs, self.seconds, self.state.reserve)

    @property
    def validation_time(self) -> ValidationTime:
        """The seconds that validation may take, by the speed of the updates so far."""
        share, epochs = self.training.validation.share, 0.0 if self.training.epochs is None else self.epochs
        updating = self.seconds - self.state.validating
        whole = self.training.budget.whole_seconds(self.state.step, epochs, updating, share)
        return ValidationTime(whole, share, 2 if self.training.average > 1 else 1)

    @property
    def curve(self) -> Curve:
        """The validations so far. A run of an older version has kept only the last ones."""
        curve, values = self.state.curve, self.state.validations
        values = values[len(values) - len(curve) :]
        return Curve([step for step, _ in curve], values, [loss for _, loss in curve], self.state.start)

    @property
    def validates(self) -> bool:
        """True if training validates before its end, and not only at its end. False without validation data."""
        validation = self.training.validation
        return self.judge is not None and bool(validation.every or validation.times)

    @property
    def _out_of_patience(self) -> bool:
        patience = self.training.validation.patience
        return patience is not None and self.state.stale >= patience

    def _update(self) -> None:
        """Makes one update from the next ``accumulate`` batches."""
        progress, step = self.progress, self.state.step + 1
        self.crew.draw_own(self.training.seed, self.state.step)
        batches = []
        for _ in range(self.training.accumulate):
            batch, place = next(self.fetched)
            batch, counts = shard(batch, self.crew.rank, self.crew.world)
            batch = augmented(self.training.augmentation, batch, place.epoch, self.training.seed)
            if self.training.hallucination:
                batch = self.training.hallucination(batch, place.epoch, self.training.seed)
            batches.append((batch, counts))
        share = self.training.schedule(step, progress, self.state.validations)
        made = self.updater(batches, step, progress, share, self._notice)
        self.unreported.append(made)
        self.state = replace(self.state, step=step, place=place, tokens=self.state.tokens + made.count)

    def _report(self) -> None:
        """Sends the updates since the last report to the callbacks, as one ``Update``, if there are any. Raises
        DivergenceError if one of their losses or gradients is not finite, and UserError if no pair of a whole epoch
        could be learned from.
        """
        if not self.unreported:
            return
        updates, self.unreported = self.unreported, []
        for update in updates:
            if not math.isfinite(float(update.total) + float(update.norm)):
                raise DivergenceError(messages.diverged(update, self.checkpoints / "last"))
        if self.state.tokens == 0 and self.epochs >= 1:
            raise UserError(messages.NOTHING_LEARNED)
        count, now = sum(update.count for update in updates), self.clock()
        mean = count or math.nan  # a mean over no token is NaN
        report = Update(
            step=self.state.step,
            loss=sum(float(update.total) for update in updates) / mean,
            nll=sum(float(update.nll) for update in updates) / mean,
            norm=sum(float(update.norm) for update in updates) / len(updates),
            rate=updates[-1].rate,
            tokens_per_second=count / max(now - self.reported, 1e-9),
            progress=min(self.progress, 1.0),
            seconds=self.seconds,
            parts={name: sum(float(update.parts[name]) for update in updates) / mean for name in updates[0].parts},
            tallies=dict(sum((update.tallies for update in updates), Counter())),
        )
        self.reported, self.last_loss = now, report.nll
        if self.state.start is None and updates[0].count:
            self.state = replace(self.state, start=float(updates[0].nll) / updates[0].count)
        self._count_event()
        for callback in self.callbacks:
            callback.on_update(report)

    def _count_event(self) -> None:
        """Counts a line of metrics.jsonl before it is written, so that a resumed run can drop the lines after its
        checkpoint. It is a no-op if training continued from a checkpoint without a count.
        """
        if self.state.events is not None:
            self.state = replace(self.state, events=self.state.events + 1)

    # ------------------------------------------------------------------ advice

    def _notice(self, text: str) -> None:
        self._count_event()
        for callback in self.callbacks:
            callback.on_notice(Notice(self.state.step, text))

    def _notice_pace(self) -> None:
        """After the first minute of this session, warns once if the clock will end training long before its updates."""
        if self.pace_known or self.seconds - self.session_began < KNOWN_AFTER:
            return
        self.pace_known = True
        if line := self.training.budget.too_slow(self.state.step, self.seconds):
            self._notice(line)

    def _conclude(self, reason: str) -> None:
        """Tells the user what the curve of validations says at its end."""
        if self.state.best is not None and not unusable(self.curve, self.state.best, self.constant):
            for line in conclusions(self.curve, self.state.best, self.constant, reason == "budget"):
                self._notice(line)

    def _check_usable(self, reason: str) -> None:
        """Raises DivergenceError if training has ended and its best model cannot be used. Without validation data, the
        last model is the best, and the loss of the last updates is its loss.
        """
        best = self.state.best
        if self.judge is None and self.last_loss is not None:
            best = Rank("loss", self.last_loss, self.last_loss)
        if reason in ("budget", "patience") and best and (why := unusable(self.curve, best, self.constant)):
            raise DivergenceError(messages.unusable_model(why))

    def _notice_share(self, computed: str, left_out: str, seconds: float) -> None:
        """Tells the user which part of a validation is computed, which part is left out, and why. It does so at most
        once in a session. The part that is left out would take ``seconds``.
        """
        if self.share_noticed:
            return
        self.share_noticed = True
        share = self.training.validation.share
        self._notice(messages.left_out_of_validation(computed, left_out, seconds, share))

    # ------------------------------------------------- validation, checkpoints

    def _due(self) -> bool:
        """True if training must now validate and, without ``checkpoint_every``, save. If training does not validate
        before its end, it must only save.

        This is due after each ``every`` updates. If ``every`` is not set, it is due when progress passes a multiple of
        1 / ``times``. If training does not validate before its end, ``SAVES`` replaces ``times``. It is never due at
        the end of the budget, because ``_finish`` validates there. Call it once for each update, because it stores the
        progress.
        """
        validation = self.training.validation
        before, self.previous_progress = self.previous_progress, self.progress
        if self.previous_progress >= 1:
            return False  # _finish does the last validation
        if validation.every is not None:
            return self.state.step % validation.every == 0
        times = validation.times if self.validates else SAVES
        return int(self.previous_progress * times) > int(before * times)

    def _validate(self, allowed: float = math.inf) -> None:
        """Validates the current model, unless this update has been validated. The validation may take ``allowed``
        seconds. If it would take longer, parts of it, or all of it, are left out.

        Also keeps the weights if ``average`` is more than 1, and updates the time to reserve for the end.
        """
        if self.state.validations and self.state.validated_step == self.state.step:
            return
        self._report()
        began = self.clock()
        if self.training.average > 1:
            state, count = self.state, self.training.average
            if self.crew.first:
                keep_recent(self.checkpoints, self.trainable.model, state.step)
            steps = recent_steps(state.recent, state.step, count)
            self.state = replace(state, recent=steps)
        try:
            judgement = self._judge("valid", allowed)
        except TooSlowError as error:
            left_out = error.seconds
            self._notice_share("nothing", "the loss", left_out)
            if self.training.validation.metrics:
                left_out *= 2  # a guess, because the time of a search is not known yet
        else:
            left_out = self._record(judgement)
        seconds = self.clock() - began + left_out
        self.state = replace(self.state, reserve=max(self.state.reserve, self.validation_time.reserve(seconds)))
        if left_out:
            self._use_less(seconds)
        if not self.share_noticed and messages.MOST * self.seconds < self.state.validating > messages.LONG:
            self.share_noticed = True
            self._notice(messages.much_validation(self.state.validating, self.seconds))
        self.reported = self.clock()
        self.previous_progress = self.progress  # validations that became due meanwhile are skipped

    def _use_less(self, seconds: float) -> None:
        """Makes all later validations use less data, and tells the user. It does so only if half of the budget is over,
        if no validation was complete so far, and if ``seconds``, the time of one validation, is too long. So all values
        come from the same examples.
        """
        share = self.crew.share(self.validation_time.part(seconds))
        if self.state.validations or self.progress < 0.5 or share == 1:
            return
        self.state = replace(self.state, part=share * self.state.part)
        self._notice(messages.less_data(self.state.part, self.training.validation.share))

    def _record(self, judgement: Judgement) -> float:
        """Records the value of a validation in ``state``, for the schedule of the learning rate. Returns 0.0.

        If the search was left out, there is no value: then it records nothing, tells the user, and returns the seconds
        that the search would have taken.
        """
        step = self.state.step
        if judgement.value is None:
            metrics = ", ".join(self.training.validation.metrics)
            self._notice_share("the loss alone", f"a search for {metrics}", judgement.search_seconds)
            return judgement.search_seconds
        validations, curve = (*self.state.validations, judgement.value), (*self.state.curve, (step, judgement.loss))
        self.state = replace(self.state, validated_step=step, validations=validations, curve=curve)
        return 0.0

    @property
    def _allowed_seconds(self) -> float:
        """The seconds that a validation before the end may take now."""
        return self.validation_time.allowed(self.seconds, self.state.validating, self.state.reserve)

    def _judge(self, what: str, allowed: float = math.inf) -> Judgement:
        """Validates the current model, saves it if it is the best so far, and calls the callbacks. Returns the
        judgement. NaN ranks last. ``what`` names the model, "valid" or "average". Raises TooSlowError like ``Judge``.
        """
        assert self.judge is not None
        began = self.clock()
        self.trainable.eval()
        try:
            judgement = self.judge(allowed, self.state.part)
        finally:
            self.trainable.train()
            self.state = replace(self.state, validating=self.state.validating + self.clock() - began)
        began, self.constant = self.clock(), judgement.constant or self.constant
        best = judgement.rank.better_than(self.state.best)
        if best:
            # if patience has run out, a resumed training must not continue, even if the average is better
            stale = self.state.stale if what == "average" and self._out_of_patience else 0
            self._save_best(judgement, what)
            self.state = replace(self.state, best_step=self.state.step, best=judgement.rank, stale=stale)
        elif judgement.value is not None and what == "valid":
            self.state = replace(self.state, stale=self.state.stale + 1)
        self._count_event()
        validated = Validated(
            self.state.step, judgement.loss, judgement.metrics, best, self.seconds, what, judgement.cut
        )
        for callback in self.callbacks:
            callback.on_validation(validated)
        self.state = replace(self.state, validating=self.state.validating + self.clock() - began)
        return judgement

    def _save_best(self, judgement: Judgement, what: str) -> None:
        """Saves the weights as ``best``, together with their rank, unless the weights there rank higher.

        The weights there can be newer than ``state``. A killed training continues from its last state, and may have
        saved better weights after it.
        """
        if not judgement.rank.better_than(self.kept) and judgement.rank != self.kept:
            return
        about = {"step": self.state.step, "what": what, "loss": judgement.loss, **judgement.metrics}
        self._save_weights("best", {**about, "rank": asdict(judgement.rank)})
        self.kept = judgement.rank

    def _save_weights(self, checkpoint: Checkpoint, about: dict[str, Any]) -> None:
        if self.crew.first:
            save_weights_alone(self.checkpoints / checkpoint, self.trainable.model, about)
        self._report_saved(checkpoint)

    def _report_saved(self, checkpoint: Checkpoint) -> None:
        for callback in self.callbacks:
            callback.on_checkpoint(Saved(checkpoint, self.state.step))

    def _finish(self) -> None:
        """Validates the last model and, if at least two are kept, the average of the last models. Each becomes the best
        checkpoint if it is better. Without validation data, or if no validation has measured anything, saves the last
        model as the best. Afterwards the model has
        its last weights again. Raises DivergenceError if the last updates have diverged.
        """
        self._report()  # raises DivergenceError before diverged weights are saved as the best
        if self.judge is None:
            self._save_weights("best", {"step": self.state.step, "what": "last"})
            self.state = replace(self.state, best_step=self.state.step)
            return
        self._validate_last()
        if self.state.best is None:
            self._notice(messages.NO_MEASURE)
            self.state = replace(self.state, best_step=self.state.step)
            self._save_weights("best", {"step": self.state.step, "what": "last"})
        recent = self.state.recent[-self.training.average :]  # a resumed run may have kept more
        if len(recent) < 2 or not self.state.validations:
            return
        self.crew.wait()  # until the first process has written the weights that all of them read
        model = self.trainable.model
        last = {name: tensor.clone() for name, tensor in weights(model).items()}
        set_weights(model, average_recent(self.checkpoints, recent), "the average")
        self._save_weights("average", {"steps": recent})
        self._judge("average")
        set_weights(model, last, "the last")
        self.state = replace(self.state, recent=())  # a resumed finished run must not average them again

    def _validate_last(self) -> None:
        """Validates the last model. If no validation was complete so far, its time is not known well: then it takes two
        attempts, the second with less data, and perhaps no search.
        """
        if self.state.validations:
            self._validate()  # its time is in reserve
            return
        self._validate(min(self.validation_time.most, self.validation_time.last(self.state.validating)))
        if not self.state.validations:
            self._validate(self.validation_time.last(self.state.validating))
        if self.state.best is None:  # one batch of the loss is better than nothing
            self.state = replace(self.state, part=LEAST_PART)
            self._validate(0.0)

    def _save(self) -> None:
        self._report()
        self.state = replace(self.state, seconds=self.seconds)
        model: nn.Module = self.trainable.model
        with self.updater.whole() as moments:
            if not self.crew.first:
                return
            save_training(self.checkpoints / "last", model, moments, self.state, self.texts, self.updater.carry)
            self._report_saved("last")
            forget_recent(self.checkpoints, self.state.recent)
