"""The training budget: the end of training, its clock, the share of validation, and a warning if the budget is too
small for the measured speed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch

from transduce.errors import UserError

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


# ----------------------------------------------------------------- validation

AT_ONCE = 1 / 3  # largest part of the share for one validation


@dataclass(frozen=True)
class ValidationTime:
    """The seconds that validation may take: a ``share`` of the budget. There is no limit if the budget has no minutes,
    because then the results must not depend on the clock. The end of training needs ``passes`` validations: of the last
    model and, if there is an average of models, of the average.
    """

    minutes: float | None
    share: float
    passes: int = 1

    @property
    def most(self) -> float:
        """The most seconds that one validation takes."""
        return math.inf if self.minutes is None else self.share * 60 * self.minutes * AT_ONCE / self.passes

    def allowed(self, seconds: float, validating: float, reserve: float) -> float:
        """The most seconds that a validation before the end takes, after ``seconds`` of training. Earlier validations
        took ``validating`` of them, and ``reserve`` seconds are kept for the end. May be negative.
        """
        if self.minutes is None:
            return math.inf
        before_the_end = self.share * 60 * self.minutes - reserve
        return min(self.most, min(self.share * seconds, before_the_end) - validating)

    def reserve(self, seconds: float) -> float:
        """The seconds to reserve for the end: a fifth more than the ``seconds`` of one validation. The limit is two
        validations of the largest size, because a validation that must become shorter needs two attempts.
        """
        return min(1.2 * seconds, 2 * self.most) * self.passes

    def part(self, seconds: float) -> float:
        """The part of its data that a validation can use if it takes ``seconds`` with all of them."""
        return min(1.0, self.most / seconds)


# ----------------------------------------------------------------------- pace

KNOWN_AFTER = 60.0  # seconds of training after which the speed is known
LEAST_UPDATES, LEAST_EPOCHS = 1_000, 10  # a budget that reaches none of the two is too small to learn much


@dataclass(frozen=True)
class Pace:
    """The progress of training: the updates, the passes over the data, and the seconds with validation."""

    updates: int
    epochs: float
    seconds: float

    def warning(self, budget: Budget) -> str | None:
        """A line for people if the budget's minutes end too soon to learn much; otherwise None.

        Too soon means before ``LEAST_UPDATES`` updates and before ``LEAST_EPOCHS`` passes over the data, at the speed
        so far. There is no warning before the first update, or if the budget has no minutes. There is also none if the
        budget's limit of updates or epochs ends training before the minutes, because the user has chosen that limit.
        """
        if budget.minutes is None or not self.updates:
            return None
        per_minute = 60 * self.updates / self.seconds
        reached = per_minute * budget.minutes
        epochs = self.epochs * reached / self.updates
        limited = (budget.steps or math.inf) <= reached or (budget.epochs or math.inf) <= epochs
        if limited or reached >= LEAST_UPDATES or epochs >= LEAST_EPOCHS:
            return None
        return (
            f"at {per_minute:,.0f} updates a minute, {budget.minutes:g} minutes end after about {reached:,.0f} updates "
            f"and {epochs:.1f} passes over the data, which is too few to learn much. Train for longer (--minutes "
            f"{math.ceil(LEAST_UPDATES / per_minute)} reaches {LEAST_UPDATES:,} updates), use more threads or a faster "
            "machine, or set a smaller model (its widths and layers) or smaller batches (training.batching.tokens)"
        )
