"""Optimisers, and schedules of their learning rate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import nn

from transduce.errors import UserError


class Optimizer(Protocol):
    """What to build over a model's parameters; ``rate`` is the peak learning rate the schedule multiplies."""

    @property
    def rate(self) -> float: ...

    def __call__(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer: ...


@dataclass(frozen=True)
class Adam:
    """Kingma and Ba 2015, with the constants of Vaswani et al. 2017, section 5.3."""

    rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-9

    def __call__(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.Adam(parameters, self.rate, (self.beta1, self.beta2), self.epsilon, fused=True)


@dataclass(frozen=True)
class AdamW:
    """Adam with decoupled weight decay of matrices, not of biases and norms (Loshchilov and Hutter 2019)."""

    rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-9
    decay: float = 0.01

    def __call__(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        parameters = list(parameters)
        groups = [
            {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": self.decay},
            {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, self.rate, (self.beta1, self.beta2), self.epsilon, fused=True)


class Schedule(Protocol):
    """The learning rate as a share of its peak: a function of the update's number (from 1), of the share of the
    budget used, and of the validation results so far, lower being better. A function: nothing to save or resume."""

    def __call__(self, step: int, progress: float, validations: Sequence[float]) -> float: ...


def check_at_least(name: str, value: float | None, least: int) -> None:
    if value is not None and not value >= least:
        raise UserError(f"{name} = {value}: at least {least} was expected")


def check_floor(floor: float) -> None:
    if not 0 <= floor <= 1:
        raise UserError(f"floor = {floor}: a share of the peak, from 0 to 1, was expected")


def warming(step: int, warmup: int) -> float:
    return min(1.0, step / warmup) if warmup else 1.0


@dataclass(frozen=True)
class Constant:
    """Always the peak, after ``warmup`` updates of linear rise."""

    warmup: int = 0

    def __post_init__(self) -> None:
        check_at_least("warmup", self.warmup, 0)

    def __call__(self, step: int, progress: float, validations: Sequence[float]) -> float:
        return warming(step, self.warmup)


@dataclass(frozen=True)
class InverseSquareRoot:
    """Linear rise over ``warmup`` updates, then sqrt(warmup / step): Vaswani et al. 2017, eq. 3."""

    warmup: int = 4000

    def __post_init__(self) -> None:
        check_at_least("warmup", self.warmup, 0)

    def __call__(self, step: int, progress: float, validations: Sequence[float]) -> float:
        return min(step / self.warmup, math.sqrt(self.warmup / step)) if self.warmup else step**-0.5


@dataclass(frozen=True)
class Cosine:
    """Half a cosine from the peak to ``floor`` of it over the budget (Loshchilov and Hutter 2017), after a warm-up."""

    warmup: int = 0
    floor: float = 0.0

    def __post_init__(self) -> None:
        check_at_least("warmup", self.warmup, 0)
        check_floor(self.floor)

    def __call__(self, step: int, progress: float, validations: Sequence[float]) -> float:
        fallen = (1 + math.cos(math.pi * min(progress, 1.0))) / 2
        return warming(step, self.warmup) * (self.floor + (1 - self.floor) * fallen)


@dataclass(frozen=True)
class Linear:
    """A straight line from the peak to ``floor`` of it over the budget, after a warm-up."""

    warmup: int = 0
    floor: float = 0.0

    def __post_init__(self) -> None:
        check_at_least("warmup", self.warmup, 0)
        check_floor(self.floor)

    def __call__(self, step: int, progress: float, validations: Sequence[float]) -> float:
        return warming(step, self.warmup) * (1 - (1 - self.floor) * min(progress, 1.0))


@dataclass(frozen=True)
class ReduceOnPlateau:
    """Multiplied by ``factor`` each time ``patience`` validations in a row were no better than the best before."""

    factor: float = 0.5
    patience: int = 3
    warmup: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.factor < 1:
            raise UserError(f"factor = {self.factor}: a share of the rate, more than 0 and less than 1, was expected")
        check_at_least("patience", self.patience, 1)
        check_at_least("warmup", self.warmup, 0)

    def __call__(self, step: int, progress: float, validations: Sequence[float]) -> float:
        best, waited, share = math.inf, 0, 1.0
        for value in validations:
            best, waited = (value, 0) if value < best else (best, waited + 1)
            if waited == self.patience:
                share, waited = share * self.factor, 0
        return warming(step, self.warmup) * share
