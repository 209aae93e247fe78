"""Optimisers, schedules of their learning rate, and frozen parameters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Protocol

import torch
from torch import nn

from transduce.core import schedules
from transduce.core.config import ConfigError
from transduce.core.errors import UserError
from transduce.core.registry import alternatives
from transduce.core.schedules import check_share
from transduce.models.weights import prefixes, summarise
from transduce.training.inheritance import Inherited

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# ----------------------------------------------------------------- optimisers


class Optimizer(Protocol):
    """Builds an optimiser over a model's parameters. ``rate`` is the peak learning rate, which the schedule scales.

    The optimiser's state may have tensors of a parameter's shape or of one number, and nothing else: a checkpoint keeps
    tensors. Training checks this before it begins.
    """

    @property
    def rate(self) -> float: ...

    def __call__(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer: ...


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma and Ba 2015), with the constants of Vaswani et al. 2017, section 5.3."""

    rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-9

    def __post_init__(self) -> None:
        check_constants(self)

    def __call__(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.Adam(parameters, self.rate, (self.beta1, self.beta2), self.epsilon, fused=True)


@dataclass(frozen=True)
class AdamW:
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019). It decays only parameters of two or more axes,
    such as matrices and embeddings, and no biases or norms.
    """

    rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-9
    decay: float = 0.01

    def __post_init__(self) -> None:
        check_constants(self)

    def __call__(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        parameters = list(parameters)
        groups = [
            {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": self.decay},
            {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, self.rate, (self.beta1, self.beta2), self.epsilon, fused=True)


@dataclass(frozen=True)
class Sgd:
    """Stochastic gradient descent. The gradient is the mean over the target tokens of an update.

    ``momentum`` is the share of the last step that is added to each step (0: none). ``decay`` times the parameters is
    added to their gradient (weight decay).
    """

    rate: float = 1.0
    momentum: float = 0.0
    decay: float = 0.0

    def __post_init__(self) -> None:
        check_constants(self)

    def __call__(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, self.rate, self.momentum, weight_decay=self.decay, foreach=True)


SHARES = ("beta1", "beta2", "momentum")  # constants below 1


def check_constants(optimizer: DataclassInstance) -> None:
    """Raises UserError for a constant outside its range."""
    for field in fields(optimizer):
        name, value = field.name, getattr(optimizer, field.name)
        below, expected = (1.0, "at least 0 and below 1") if name in SHARES else (math.inf, "a finite number from 0 on")
        if name == "epsilon" and value == 0:
            raise UserError("epsilon = 0: a finite number above 0 was expected")
        if not 0 <= value < below:
            raise UserError(f"{name} = {value}: {expected} was expected")


class Adapter(Protocol):
    """Trains little beside the weights of a run that training starts from. A call with the model and the ``optimizer``
    excludes all other parameters from training, in place. ``inherited`` is the report of what the run has given, for
    JSON; None if training continues from a checkpoint.

    Returns an optimiser over the model's parameters, and lines for the run's report. The model's weights always include
    what was learned, so all else reads them as usual.
    """

    def __call__(self, model: nn.Module, optimizer: Optimizer, inherited: Inherited | None) -> Trained: ...


Trained = tuple[torch.optim.Optimizer, list[str]]


def optimizer_of(
    model: nn.Module, optimizer: Optimizer, adapter: Adapter | None, inherited: Inherited | None = None
) -> Trained:
    """Makes the optimiser of a model, and lines for the report about the ``adapter``."""
    if adapter is not None:
        return adapter(model, optimizer, inherited)
    return optimizer(p for p in model.parameters() if p.is_floating_point()), []  # counts are integers


# -------------------------------------------------------------- learning rate


class Schedule(Protocol):
    """The learning rate as a share of its peak.

    It depends on the number ``step`` of the update, from 1, and on ``progress``, the used share of the budget. It also
    depends on the values of all ``validations`` so far, in order; lower values are better. It has no state, so a
    checkpoint does not save it.
    """

    def __call__(self, step: int, progress: float, validations: Sequence[float]) -> float: ...


def warm_up(step: int, warmup: int) -> float:
    """The share of the peak learning rate in a warm-up. It rises linearly to 1 over ``warmup`` updates, then stays at
    1. It is always 1 if ``warmup`` is 0. ``step`` is the number of the update, from 1.
    """
    return min(1.0, step / warmup) if warmup else 1.0


def check_at_least(name: str, value: float | None, least: int) -> None:
    if value is not None and not value >= least:
        raise UserError(f"{name} = {value}: at least {least} was expected")


@dataclass(frozen=True)
class ConstantRate:
    """A schedule: the peak learning rate, after a linear warm-up of ``warmup`` updates."""

    warmup: int = 0

    def __post_init__(self) -> None:
        check_at_least("warmup", self.warmup, 0)

    def __call__(self, step: int, progress: float, validations: Sequence[float]) -> float:
        return warm_up(step, self.warmup)


@dataclass(frozen=True)
class InverseSquareRoot:
    """A schedule: a linear warm-up of ``warmup`` updates, then the peak learning rate times sqrt(warmup / step)
    (Vaswani et al. 2017, eq. 3). If ``warmup`` is 0, the learning rate is the peak times 1 / sqrt(step).
    """

    warmup: int = 4000

    def __post_init__(self) -> None:
        check_at_least("warmup", self.warmup, 0)

    def __call__(self, step: int, progress: float, validations: Sequence[float]) -> float:
        return min(step / self.warmup, math.sqrt(self.warmup / step)) if self.warmup else step**-0.5


@dataclass(frozen=True)
class CosineDecay:
    """A schedule: the learning rate falls along half a cosine over the budget, from the peak to ``floor`` times the
    peak (Loshchilov and Hutter 2017). A linear warm-up also scales the first ``warmup`` updates.
    """

    warmup: int = 0
    floor: float = 0.0

    def __post_init__(self) -> None:
        check_at_least("warmup", self.warmup, 0)
        check_share("floor", self.floor)

    def __call__(self, step: int, progress: float, validations: Sequence[float]) -> float:
        return warm_up(step, self.warmup) * schedules.HalfCosine(self.floor)(progress)


@dataclass(frozen=True)
class LinearDecay:
    """A schedule: the learning rate falls along a straight line over the budget, from the peak to ``floor`` times the
    peak. A linear warm-up also scales the first ``warmup`` updates.
    """

    warmup: int = 0
    floor: float = 0.0

    def __post_init__(self) -> None:
        check_at_least("warmup", self.warmup, 0)
        check_share("floor", self.floor)

    def __call__(self, step: int, progress: float, validations: Sequence[float]) -> float:
        return warm_up(step, self.warmup) * schedules.Linear(1.0, 1 - self.floor, self.floor)(progress)


@dataclass(frozen=True)
class StepDecay:
    """A schedule: divides the budget into ``parts`` equal parts, for example epochs. The learning rate stays at its
    peak in the first ``hold`` parts, and is multiplied by ``factor`` at the beginning of every later part. Zaremba et
    al. 2014, section 4.1, have 13 parts, hold the rate for 4 of them, and use the factor 0.5.
    """

    parts: int = 13
    hold: int = 4
    factor: float = 0.5

    def __post_init__(self) -> None:
        check_at_least("parts", self.parts, 1)
        check_at_least("hold", self.hold, 0)
        if not 0 < self.factor < 1:
            raise UserError(f"factor = {self.factor}: a share of the rate, more than 0 and less than 1, was expected")

    def __call__(self, step: int, progress: float, validations: Sequence[float]) -> float:
        part = min(int(progress * self.parts + 1e-9), self.parts - 1)  # 3 / 13 * 13 may be less than 3
        return self.factor ** max(0, part + 1 - self.hold)


@dataclass(frozen=True)
class ReduceOnPlateau:
    """A schedule: multiplies the learning rate by ``factor`` after every ``patience`` validations in a row without a
    new best value. A linear warm-up also scales the first ``warmup`` updates.
    """

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
        return warm_up(step, self.warmup) * share


# ---------------------------------------------------------- frozen parameters


def freeze(model: nn.Module, patterns: Sequence[str]) -> list[str]:
    """Excludes the parameters that ``patterns`` name from training, in place. Returns a list with one line for the
    run's report if any parameter is frozen; otherwise an empty list.

    A pattern is the dotted name of a parameter that has a gradient, or of a module that has such parameters. It may
    have shell wildcards. A shared parameter is frozen under all of its names. Modules stay in training mode, so dropout
    stays on. Raises ConfigError if a pattern matches no parameter, or if no parameter is left to train.
    """
    every = {name: p for name, p in model.named_parameters(remove_duplicate=False) if p.requires_grad}
    for pattern in patterns:
        found = [name for name in every if any(fnmatchcase(prefix, pattern) for prefix in prefixes(name))]
        if not found:
            depth = pattern.count(".") + 1
            near = {prefix for name in every for prefix in prefixes(name) if prefix.count(".") < depth}
            raise ConfigError("training.freeze", f'"{pattern}" is no part of this model{alternatives(pattern, near)}')
        for name in found:
            every[name].requires_grad_(False)
    frozen = [name for name, parameter in every.items() if not parameter.requires_grad]
    if len(frozen) == len(every):
        raise ConfigError("training.freeze", f"{list(patterns)} leaves nothing to train; freeze less")
    count = sum(parameter.numel() for parameter in {every[name] for name in frozen})
    return [f"frozen: {', '.join(summarise(frozen, every))}, {count:,} parameters"] if frozen else []
