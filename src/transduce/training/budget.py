"""The training budget: the end of training, its clock, and the share of validation."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch

from transduce.core.errors import UserError
from transduce.core.finite import readable

Clock = Literal["wall", "processor"]


def _processor_seconds() -> float:
    """Processor seconds that all threads of this process have used, divided by PyTorch's number of threads."""
    return time.process_time() / torch.get_num_threads()


CLOCKS: dict[Clock, Callable[[], float]] = {"wall": time.monotonic, "processor": _processor_seconds}


@dataclass(frozen=True)
class Budget:
    """The limits of training: ``steps`` are updates, ``epochs`` are passes over the data, ``minutes`` include
    validation. The limit that is reached first ends training.

    Raises UserError if there is no limit, or if a limit is not positive. After an interruption, only a budget without
    minutes gives the same result bit for bit.
    """

    steps: int | None = None
    epochs: float | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        given = {"steps": self.steps, "epochs": self.epochs, "minutes": self.minutes}
        if all(limit is None for limit in given.values()):
            raise UserError("training has no end: set training.steps, training.epochs or training.minutes")
        for name, limit in given.items():
            if limit is not None and not limit > 0:
                raise UserError(f"training.{name} = {limit}: more than 0 was expected")

    def __str__(self) -> str:
        limits = ((self.steps, "updates"), (self.epochs, "passes"), (self.minutes, "minutes"))
        return " or ".join(f"{limit:,} {unit}".replace(".0 ", " ") for limit, unit in limits if limit is not None)

    def progress(self, steps: int, epochs: float, seconds: float, reserve: float = 0.0) -> float:
        """The used share of the budget, from 0; it is 1 or more when the budget has ended. It is the largest share of
        all limits that are set. ``seconds`` count against the minutes, and ``reserve`` seconds of the minutes are kept
        for the last validation.
        """
        shares = [0.0]
        if self.steps is not None:
            shares.append(steps / self.steps)
        if self.epochs is not None:
            shares.append(epochs / self.epochs)
        if self.minutes is not None:
            shares.append(seconds / max(60 * self.minutes - reserve, 1e-9))
        return max(shares)

    def whole_seconds(self, steps: int, epochs: float, seconds: float, share: float) -> float:
        """The expected seconds of the whole training, of which validation takes a ``share``. ``seconds`` is the time of
        the updates so far, without validation. Infinite if the budget has no minutes.
        """
        if self.minutes is None:
            return math.inf
        done = self.progress(steps, epochs, 0.0)
        by_work = seconds / done / (1 - share) if done and share < 1 else math.inf
        return min(60 * self.minutes, by_work)

    def too_slow(self, steps: int, seconds: float) -> str | None:
        """A line for people if the minutes end training long before its ``steps``; otherwise None. So far it has made
        ``steps`` updates in ``seconds``.
        """
        if self.minutes is None or self.steps is None or not steps:
            return None
        reached = steps / seconds * 60 * self.minutes
        if reached >= REACHED * self.steps:
            return None
        needed = math.ceil(self.steps / steps * seconds / 60)
        return (
            f"the clock will end training after about {readable(reached, 2)} of {self.steps:,} updates "
            f"(training.minutes = {self.minutes:g}). All of them take about {needed} minutes here: --minutes {needed}, "
            "or use more threads or a faster machine"
        )


REACHED = 0.7  # a budget whose minutes reach a smaller share of its updates is too slow
KNOWN_AFTER = 60.0  # seconds of training after which the speed is known


# ----------------------------------------------------------------- validation

AT_ONCE = 1 / 3  # largest part of the share for one validation


@dataclass(frozen=True)
class ValidationTime:
    """The seconds that validation may take: a ``share`` of the ``whole`` seconds of training. There is no limit if the
    budget has no minutes, because then the results must not depend on the clock: ``whole`` is infinite. The end of
    training needs ``passes`` validations: of the last model and, if there is an average of models, of the average.
    """

    whole: float
    share: float
    passes: int = 1

    @property
    def most(self) -> float:
        """The most seconds that one validation takes."""
        return self.share * self.whole * AT_ONCE / self.passes

    def allowed(self, seconds: float, validating: float, reserve: float) -> float:
        """The most seconds that a validation before the end takes, after ``seconds`` of training. Earlier validations
        took ``validating`` of them, and ``reserve`` seconds are kept for the end. May be negative.
        """
        if math.isinf(self.whole):
            return math.inf
        before_the_end = self.share * self.whole - reserve
        return min(self.most, min(self.share * seconds, before_the_end) - validating)

    def last(self, validating: float) -> float:
        """The most seconds that one validation takes at the end of training. Earlier ones took ``validating``."""
        return (self.share * self.whole - validating) / self.passes

    def reserve(self, seconds: float) -> float:
        """The seconds to reserve for the end: a fifth more than the ``seconds`` of one validation. The limit is two
        validations of the largest size, because a validation that must become shorter needs two attempts.
        """
        return min(1.2 * seconds, 2 * self.most) * self.passes

    def part(self, seconds: float) -> float:
        """The part of its data that a validation can use if it takes ``seconds`` with all of them."""
        return min(1.0, self.most / seconds)
