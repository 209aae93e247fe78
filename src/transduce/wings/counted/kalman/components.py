"""The components of a state-space model: level, trend, season, autoregression, or free matrices.

A series is the sum of its components and of noise (Harvey 1989). C channels, N states of a component. Each channel has
its own copy of the states of a level, a trend or a season, and the noise of the copies may correlate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from transduce.core.errors import UserError


@dataclass(frozen=True)
class Block:
    """A component's part of the matrices (filtering.py), with first guesses of the entries to estimate.

    ``transition`` is [N, N] and ``observation`` [C, N]. ``transition_free`` and ``observation_free`` are True at their
    entries to estimate. ``state_noise`` [N, N] is a covariance; its entries that are not 0 are estimated.
    """

    transition: Tensor
    transition_free: Tensor
    observation: Tensor
    observation_free: Tensor
    state_noise: Tensor


class Component(Protocol):
    """A part of a state-space model. ``block`` returns its matrices for a number of channels."""

    def block(self, channels: int) -> Block: ...


@dataclass(frozen=True)
class Level:
    """A random walk: l_t+1 = l_t + w_t. Alone, it is the local level model."""

    def block(self, channels: int) -> Block:
        return _each(_matrix([[1.0]]), _matrix([[0.0]]), [0.1], channels)


@dataclass(frozen=True)
class Trend:
    """A level that moves by a slope, which is a random walk: l_t+1 = l_t + s_t + w_t, s_t+1 = a s_t + u_t.

    a is 1, or estimated if the trend is ``damped``.
    """

    damped: bool = False

    def block(self, channels: int) -> Block:
        slope = 0.9 if self.damped else 1.0
        transition, free = _matrix([[1.0, 1.0], [0.0, slope]]), _matrix([[0.0, 0.0], [0.0, float(self.damped)]])
        return _each(transition, free, [0.1, 0.01], channels)


@dataclass(frozen=True)
class Season:
    """A pattern of ``period`` steps whose sum over a period is noise: s_t+1 = w_t - s_t - ... - s_t-period+2."""

    period: int

    def __post_init__(self) -> None:
        if self.period < 2:
            raise UserError(f"period = {self.period}: a season has at least 2 steps")

    def block(self, channels: int) -> Block:
        size = self.period - 1
        matrix = torch.diag(torch.ones(size - 1, dtype=torch.float64), -1)
        matrix[0] = -1.0
        return _each(matrix, torch.zeros_like(matrix), [0.01, *[0.0] * (size - 1)], channels)


@dataclass(frozen=True)
class Autoregression:
    """z_t+1 = A_1 z_t + ... + A_order z_t-order+1 + w_t. Each channel depends on the past of all channels."""

    order: int

    def __post_init__(self) -> None:
        if self.order < 1:
            raise UserError(f"order = {self.order}: an autoregression looks back at least 1 step")

    def block(self, channels: int) -> Block:
        matrix = torch.diag(torch.ones(self.order - 1, dtype=torch.float64), -1)
        matrix[0, 0] = 0.5
        block = _each(matrix, torch.zeros_like(matrix), [0.1, *[0.0] * (self.order - 1)], channels)
        block.transition_free[:channels] = True
        return block


@dataclass(frozen=True)
class FreeStates:
    """``states`` hidden states, whose matrices F, H and Q are all estimated.

    The states themselves have no meaning: many matrices describe the same distribution of series.
    """

    states: int

    def __post_init__(self) -> None:
        if self.states < 1:
            raise UserError(f"states = {self.states}: at least 1 state was expected")

    def block(self, channels: int) -> Block:
        size = self.states
        whole = torch.ones(size, size, dtype=torch.bool)
        observation = torch.randn(channels, size, dtype=torch.float64) / size**0.5
        turned = torch.linalg.qr(torch.randn(size, size, dtype=torch.float64))[0]
        noise = 0.1 * torch.eye(size, dtype=torch.float64) + 1e-3
        return Block(0.9 * turned, whole, observation, torch.ones(channels, size, dtype=torch.bool), noise)


def _matrix(rows: list[list[float]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def _each(transition: Tensor, free: Tensor, noise: list[float], channels: int) -> Block:
    """A block of states that each channel has for itself. ``free`` is 1 at the entries of ``transition`` to estimate.
    ``noise`` has first guesses of the states' variances.

    The copies of a state in all channels are adjacent. Each channel of the series is its copy of the first state.
    """
    own, every = torch.eye(channels, dtype=torch.float64), torch.ones(channels, channels, dtype=torch.float64)
    variance = torch.diag(torch.tensor(noise, dtype=torch.float64))
    shown = torch.zeros(1, len(noise), dtype=torch.float64)
    shown[0, 0] = 1.0
    observation = torch.kron(shown, own)
    covariance = torch.kron(variance, 0.9 * own + 0.1 * every)  # correlated a little: 0 would not be estimated
    return Block(
        torch.kron(transition, own),
        torch.kron(free, own) > 0,
        observation,
        torch.zeros_like(observation, dtype=torch.bool),
        covariance,
    )


def joined(blocks: Sequence[Block]) -> Block:
    """One block of all states: the sum of independent components."""
    return Block(
        _diagonal([each.transition for each in blocks]),
        _diagonal([each.transition_free.double() for each in blocks]) > 0,
        torch.cat([each.observation for each in blocks], 1),
        torch.cat([each.observation_free for each in blocks], 1),
        _diagonal([each.state_noise for each in blocks]),
    )


def _diagonal(matrices: list[Tensor]) -> Tensor:
    joined: Tensor = torch.block_diag(*matrices)  # type: ignore[no-untyped-call]
    return joined
