"""Schedules: a number in [0, 1] as a function of progress, the share of the training budget that is used.

A schedule is a pure function, so a checkpoint has nothing to save. The probability of scheduled sampling is a schedule
(``objectives.forcing``). A learning rate is its peak times a warm-up times a schedule (``training.optimization``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from transduce.core.errors import UserError


class Probability(Protocol):
    """The contract of schedules: maps ``progress``, the share of the training budget that is used, to a number. Both
    are in [0, 1].
    """

    def __call__(self, progress: float) -> float: ...


@dataclass(frozen=True)
class Constant:
    """A schedule that always gives ``value``."""

    value: float

    def __post_init__(self) -> None:
        check_share("value", self.value)

    def __call__(self, progress: float) -> float:
        return self.value


@dataclass(frozen=True)
class Linear:
    """A schedule that falls along a line: p = max(floor, start - slope progress) (Bengio et al. 2015, section 2.4).

    The paper counts updates; here progress is the share of the budget.
    """

    start: float = 1.0
    slope: float = 0.5
    floor: float = 0.0

    def __post_init__(self) -> None:
        check_share("start", self.start)
        check_share("floor", self.floor)
        if self.floor > self.start:
            raise UserError(f"floor = {self.floor}: at most start = {self.start} was expected")
        if not 0 <= self.slope < math.inf:
            raise UserError(f"slope = {self.slope}: a number of at least 0 was expected (p falls from start)")

    def __call__(self, progress: float) -> float:
        return max(self.floor, self.start - self.slope * progress)


@dataclass(frozen=True)
class HalfCosine:
    """A schedule that falls from 1 to ``floor`` along half a cosine: p = floor + (1 - floor) (1 + cos(pi progress)) / 2
    (Loshchilov and Hutter 2017, eq. 5).
    """

    floor: float = 0.0

    def __post_init__(self) -> None:
        check_share("floor", self.floor)

    def __call__(self, progress: float) -> float:
        return self.floor + (1 - self.floor) * (1 + math.cos(math.pi * min(progress, 1.0))) / 2


@dataclass(frozen=True)
class Exponential:
    """A schedule that falls from 1 to ``end`` by the same factor at each update: p = end^progress.

    Bengio et al. 2015 write k^i at update i of n, with k = end^(1/n).
    """

    end: float = 0.5

    def __post_init__(self) -> None:
        check_share("end", self.end)
        if not self.end:
            raise UserError("end = 0: more than 0 was expected, because no factor reaches 0; try 0.01")

    def __call__(self, progress: float) -> float:
        return float(self.end**progress)


@dataclass(frozen=True)
class InverseSigmoid:
    """A schedule that falls slowly, then fast, then slowly: p = 1 / (1 + exp(steepness (progress - middle))).

    It is 1/2 at ``middle``. Bengio et al. 2015 write k / (k + exp(i / k)): k = exp(steepness middle), i / k = steepness
    progress.
    """

    middle: float = 0.5
    steepness: float = 10.0

    def __post_init__(self) -> None:
        if not math.isfinite(self.middle):
            raise UserError(f"middle = {self.middle}: a share of the budget was expected")
        if not 0 <= self.steepness < math.inf:
            raise UserError(f"steepness = {self.steepness}: a number of at least 0 was expected (p falls)")

    def __call__(self, progress: float) -> float:
        return (1 - math.tanh(self.steepness * (progress - self.middle) / 2)) / 2  # the same value; exp can overflow


def check_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise UserError(f"{name} = {value}: a number from 0 to 1 was expected")
