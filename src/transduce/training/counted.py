"""The contract of counted models."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import nn

from transduce.compute.cluster import AnyWorkers
from transduce.core.errors import UserError
from transduce.core.protocols import Model
from transduce.data.pairs import Pairs, Ragged


class Counts(Protocol):
    """The counts of a model over the pairs that it can count.

    ``report`` has lines for the user. ``tokens`` is the number of target tokens, including ends. ``reestimate`` does
    one pass of expectation maximisation, and returns the log-probability (natural logarithm) of the pairs before the
    pass, summed over them. ``store`` writes the counts into the model.
    """

    report: tuple[str, ...]
    tokens: int

    def reestimate(self) -> float: ...

    def store(self) -> None: ...


class OnePass(ABC):
    """``Counts`` that are final after one pass.

    The first call of ``reestimate`` counts. It returns the log-probability of the uniform model before it: ``places``
    tokens with ``choices`` equally probable choices each. Later calls only return ``log_prob()``.
    """

    report: tuple[str, ...] = ()

    def __init__(self, tokens: int, places: int, choices: int) -> None:
        self.tokens = tokens
        self._alike = -places * math.log(max(1, choices))
        self._counted = False
        self._measured: float | None = None

    def reestimate(self) -> float:
        if not self._counted:
            self.store()
            return self._alike
        if self._measured is None:
            self._measured = self.log_prob()
        return self._measured

    def store(self) -> None:
        if not self._counted:
            self.count()
            self._counted = True

    @abstractmethod
    def count(self) -> None:
        """Counts, and stores the counts in the model."""

    @abstractmethod
    def log_prob(self) -> float:
        """The log-probability (natural logarithm) of the pairs under the counted model."""


class Counted(Model, Protocol):
    """A model whose parameters (``empty``) are counts or functions of counts."""

    def counts(self, pairs: Pairs) -> Counts: ...


class CountedInParts(Counted, Protocol):
    """A counted model whose counts are sums over parts of the pairs. ``workers`` makes the workers that count them.
    ``counts`` gives the same model, bit for bit. None means that the counts of these pairs cannot be divided.
    """

    def counts_in_parts(self, pairs: Pairs, workers: Callable[[], AnyWorkers]) -> Counts | None: ...


class PartlyCounted(Model, Protocol):
    """A model that is trained by gradients, with parts that are counted before its first update."""

    def counted_parts(self) -> Sequence[Counted]: ...


def check_tokens(model: str, *sides: Ragged) -> None:
    """Raises UserError if one of the ``sides`` has numbers instead of tokens. ``model`` is the name for the error."""
    if any(side.ids.dtype.kind == "f" for side in sides):
        raise UserError(f"{model} counts tokens, and the data has numbers: set data.units to text's")


def empty(dtype: torch.dtype = torch.float32, *shape: int) -> nn.Parameter:
    """A parameter without gradient. It has no size until something is counted or loaded (models/weights.py)."""
    return nn.Parameter(torch.empty(0, *shape, dtype=dtype), requires_grad=False)
