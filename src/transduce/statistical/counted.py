"""Models that are counted, and not trained by gradients."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Protocol

import torch
from torch import nn

from transduce.data.pairs import Pairs, Ragged
from transduce.errors import UserError
from transduce.protocols import Model


class Counts(Protocol):
    """What a model counts of all pairs that it can; ``report`` is what to tell people of them, ``tokens`` are those of
    their targets, ends included.

    ``reestimate`` is a pass of expectation maximisation, and returns the log-probability (natural) of these pairs by
    the counts before it; ``settle`` makes the counts the model's.
    """

    report: tuple[str, ...]
    tokens: int

    def reestimate(self) -> float: ...

    def settle(self) -> None: ...


class OnePass(ABC):
    """``Counts`` that are the model's after one pass; those that follow measure them.

    Before it all is alike: one of so many ``choices`` in each of the ``places``.
    """

    report: tuple[str, ...] = ()

    def __init__(self, tokens: int, places: int, choices: int) -> None:
        self.tokens = tokens
        self._alike = -places * math.log(max(1, choices))
        self._counted = False
        self._measured: float | None = None

    def reestimate(self) -> float:
        if not self._counted:
            self.settle()
            return self._alike
        if self._measured is None:
            self._measured = self.log_prob()
        return self._measured

    def settle(self) -> None:
        if not self._counted:
            self.count()
            self._counted = True

    @abstractmethod
    def count(self) -> None:
        """Count, and make the counts the model's."""

    @abstractmethod
    def log_prob(self) -> float:
        """That of the pairs, by the model."""


class Counted(Model, Protocol):
    """A model whose parameters (``empty``) are counts, or made of them."""

    def counts(self, pairs: Pairs) -> Counts: ...


def check_tokens(model: str, *sides: Ragged) -> None:
    """Raise ValueError where there are numbers to be counted, and not tokens."""
    if any(side.ids.dtype.kind == "f" for side in sides):
        raise UserError(f"{model} counts tokens, and the data has numbers: set data.units to text's")


def empty(dtype: torch.dtype = torch.float32, *shape: int) -> nn.Parameter:
    """A parameter that has no size until something is counted, or loaded (models/weights.py), and no gradient."""
    return nn.Parameter(torch.empty(0, *shape, dtype=dtype), requires_grad=False)
