"""The validations of a training: when there is time for them, what they measure, and which model is the best."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from transduce.models.weights import set_weights, weights
from transduce.runs.checkpoints import Rank
from transduce.training import messages
from transduce.training.callbacks import Validated
from transduce.training.course import Course
from transduce.training.curve import Constant, DivergenceError, conclusions, unusable
from transduce.training.keeper import Keeper
from transduce.training.validation import Judgement, TooSlowError

LEAST_PART = 1e-9  # of the validation data: one batch


class Validations:
    """Validates the current model, and keeps it as the checkpoint best if it is the best so far.

    ``judge`` validates. Its arguments limit its seconds and the part of its data. If it is None, there are no
    validation data, and the last model is the best.
    """

    def __init__(self, course: Course, keeper: Keeper, judge: Callable[[float, float], Judgement] | None) -> None:
        self.course, self.keeper, self.judge = course, keeper, judge
        self.trainable, self.crew = keeper.updater.trainable, keeper.updater.crew
        self.constant: Constant | None = None  # as the last validation with a search knows it
        self.told = False  # once in a session, that validation takes much time

    @property
    def before_the_end(self) -> bool:
        """True if training validates before its end, and not only at its end. False without validation data."""
        validation = self.course.training.validation
        return self.judge is not None and bool(validation.every or validation.times)

    def now(self) -> None:
        """A validation before the end, which may take its share of the time so far."""
        state = self.course.state
        self._validate(self.course.validation_time.allowed(self.course.seconds, state.validating, state.reserve))

    def finish(self) -> None:
        """Validates the last model and, if at least two are kept, the average of the last models. Each becomes the best
        checkpoint if it is better. Without validation data, or if no validation has measured anything, saves the last
        model as the best. Afterwards the model has its last weights again.
        """
        course = self.course
        if self.judge is None:
            self.keeper.last_as_best()
            return
        self._last()
        if course.state.best is None:
            course.notice(messages.NO_MEASURE)
            self.keeper.last_as_best()
        recent = course.state.recent[-course.training.average :]  # a resumed run may have kept more
        if len(recent) < 2 or not course.state.validations:
            return
        model = self.trainable.model
        last = {name: tensor.clone() for name, tensor in weights(model).items()}
        set_weights(model, self.keeper.average(recent), "the average")
        self.keeper.weights("average", {"steps": recent})
        self._judge("average")
        set_weights(model, last, "the last")
        course.state = replace(course.state, recent=())  # a resumed finished run must not average them again

    def conclude(self, ended: bool) -> None:
        """Tells the user what the curve of validations says at its end. ``ended`` is True if the budget has ended."""
        best, curve = self.course.state.best, self.course.curve
        if best is not None and not unusable(curve, best, self.constant):
            for line in conclusions(curve, best, self.constant, ended):
                self.course.notice(line)

    def check_usable(self, last_loss: float | None) -> None:
        """Raises DivergenceError if the best model cannot be used. Without validation data, the last model is the best,
        and the loss of the last updates is its loss.
        """
        best = self.course.state.best
        if self.judge is None and last_loss is not None:
            best = Rank("loss", last_loss, last_loss)
        if best and (why := unusable(self.course.curve, best, self.constant)):
            raise DivergenceError(messages.unusable_model(why))

    # ------------------------------------------------------------ one validation

    def _last(self) -> None:
        """Validates the last model. If no validation was complete so far, its time is not known well: then it takes two
        attempts, the second with less data, and perhaps no search.
        """
        course = self.course
        if course.state.validations:
            self._validate()  # its time is in reserve
            return
        time = course.validation_time
        self._validate(min(time.most, time.last(course.state.validating)))
        if not course.state.validations:
            self._validate(course.validation_time.last(course.state.validating))
        if course.state.best is None:  # one batch of the loss is better than nothing
            course.state = replace(course.state, part=LEAST_PART)
            self._validate(0.0)

    def _validate(self, allowed: float = math.inf) -> None:
        """Validates the current model, unless this update has been validated. The validation may take ``allowed``
        seconds. If it would take longer, parts of it, or all of it, are left out.

        Also keeps the weights if there will be an average, and updates the time to reserve for the end.
        """
        course = self.course
        if course.state.validations and course.state.validated_step == course.state.step:
            return
        began = course.clock()
        self.keeper.for_average()
        try:
            judgement = self._judge("valid", allowed)
        except TooSlowError as error:
            left_out = error.seconds
            self._tell_left_out("nothing", "the loss", left_out)
            if course.training.validation.metrics:
                left_out *= 2  # a guess, because the time of a search is not known yet
        else:
            left_out = self._record(judgement)
        seconds = course.clock() - began + left_out
        reserve = course.validation_time.reserve(seconds)
        course.state = replace(course.state, reserve=max(course.state.reserve, reserve))
        if left_out:
            self._use_less(seconds)
        if messages.MOST * course.seconds < course.state.validating > messages.LONG:
            self._tell(messages.much_validation(course.state.validating, course.seconds))

    def _judge(self, what: str, allowed: float = math.inf) -> Judgement:
        """Validates the current model, saves it if it is the best so far, and calls the callbacks. Returns the
        judgement. NaN ranks last. ``what`` names the model, "valid" or "average". Raises TooSlowError like ``Judge``.
        """
        assert self.judge is not None
        course, began = self.course, self.course.clock()
        self.trainable.eval()
        try:
            judgement = self.judge(allowed, course.state.part)
        finally:
            self.trainable.train()
            self._took(began)
        began, self.constant = course.clock(), judgement.constant or self.constant
        best, step = judgement.rank.better_than(course.state.best), course.state.step
        if best:
            # if patience has run out, a resumed training must not continue, even if the average is better
            stale = course.state.stale if what == "average" and course.out_of_patience else 0
            self.keeper.best(judgement.rank, {"step": step, "what": what, "loss": judgement.loss, **judgement.metrics})
            course.state = replace(course.state, best_step=step, best=judgement.rank, stale=stale)
        elif judgement.value is not None and what == "valid":
            course.state = replace(course.state, stale=course.state.stale + 1)
        course.validated(Validated(step, judgement.loss, judgement.metrics, best, course.seconds, what, judgement.cut))
        self._took(began)
        return judgement

    def _took(self, began: float) -> None:
        """Counts the time since ``began`` as time of validation."""
        state = self.course.state
        self.course.state = replace(state, validating=state.validating + self.course.clock() - began)

    def _record(self, judgement: Judgement) -> float:
        """Records the value of a validation in the state, for the schedule of the learning rate. Returns 0.0.

        If the search was left out, there is no value: then it records nothing, tells the user, and returns the seconds
        that the search would have taken.
        """
        state = self.course.state
        if judgement.value is None:
            metrics = ", ".join(self.course.training.validation.metrics)
            self._tell_left_out("the loss alone", f"a search for {metrics}", judgement.search_seconds)
            return judgement.search_seconds
        validations, curve = (*state.validations, judgement.value), (*state.curve, (state.step, judgement.loss))
        self.course.state = replace(state, validated_step=state.step, validations=validations, curve=curve)
        return 0.0

    def _use_less(self, seconds: float) -> None:
        """Makes all later validations use less data, and tells the user. It does so only if half of the budget is over,
        if no validation was complete so far, and if ``seconds``, the time of one validation, is too long. So all values
        come from the same examples.
        """
        course = self.course
        share = self.crew.share(course.validation_time.part(seconds))
        if course.state.validations or course.progress < 0.5 or share == 1:
            return
        course.state = replace(course.state, part=share * course.state.part)
        course.notice(messages.less_data(course.state.part, course.training.validation.share))

    def _tell_left_out(self, computed: str, left_out: str, seconds: float) -> None:
        """Tells the user which part of a validation is computed, which part is left out, and why. The part that is left
        out would take ``seconds``.
        """
        share = self.course.training.validation.share
        self._tell(messages.left_out_of_validation(computed, left_out, seconds, share))

    def _tell(self, text: str) -> None:
        """Tells the user that validation takes much time, at most once in a session."""
        if not self.told:
            self.told = True
            self.course.notice(text)
