"""Schedules of a probability: functions of the share of the budget used, so that nothing is to be saved or resumed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from transduce.errors import UserError


class Probability(Protocol):
    """A number in [0, 1] for each ``progress`` in [0, 1]."""

    def __call__(self, progress: float) -> float: ...


@dataclass(frozen=True)
class Constant:
    """p = value."""

    value: float

    def __post_init__(self) -> None:
        _share("value", self.value)

    def __call__(self, progress: float) -> float:
        return self.value


@dataclass(frozen=True)
class Linear:
    """p = max(floor, start - slope progress) (Bengio et al. 2015, section 2.4, with their count of updates as a share
    of the budget)."""

    start: float = 1.0
    slope: float = 0.5
    floor: float = 0.0

    def __post_init__(self) -> None:
        _share("start", self.start)
        _share("floor", self.floor)
        if self.floor > self.start:
            raise UserError(f"floor = {self.floor}: at most start = {self.start} was expected")
        if not 0 <= self.slope < math.inf:
            raise UserError(f"slope = {self.slope}: a number of at least 0 was expected (p falls from start)")

    def __call__(self, progress: float) -> float:
        return max(self.floor, self.start - self.slope * progress)


@dataclass(frozen=True)
class Exponential:
    """p = end^progress: from 1, in equal updates by equal factors, to ``end`` (Bengio et al. 2015: k^i at update i of
    n, with k = end^(1/n))."""

    end: float = 0.5

    def __post_init__(self) -> None:
        _share("end", self.end)
        if not self.end:
            raise UserError("end = 0: more than 0 was expected (no factor leads there); try 0.01")

    def __call__(self, progress: float) -> float:
        return float(self.end**progress)


@dataclass(frozen=True)
class InverseSigmoid:
    """p = 1 / (1 + exp(steepness (progress - middle))): slowly, then fast, then slowly down; 1/2 at ``middle``
    (Bengio et al. 2015: k / (k + exp(i / k)), with k = exp(steepness middle) and i / k = steepness progress)."""

    middle: float = 0.5
    steepness: float = 10.0

    def __post_init__(self) -> None:
        if not math.isfinite(self.middle):
            raise UserError(f"middle = {self.middle}: a share of the budget was expected")
        if not 0 <= self.steepness < math.inf:
            raise UserError(f"steepness = {self.steepness}: a number of at least 0 was expected (p falls)")

    def __call__(self, progress: float) -> float:
        return (1 - math.tanh(self.steepness * (progress - self.middle) / 2)) / 2  # the same, and exp may overflow


def _share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise UserError(f"{name} = {value}: a probability, from 0 to 1, was expected")
