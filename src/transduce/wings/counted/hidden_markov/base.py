"""The contract of emissions: what each state of a hidden Markov model generates. B rows, T steps, S states."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from torch import Tensor

from transduce.core.types import Padded

Weighted = tuple[Padded, Padded]
"""A source, and how often each state emits each of its steps: [B, T, S], float64, with the number of steps of each row.
The states of a step with zeros alone are not known."""


class Estimation(Protocol):
    """The estimation of emissions in passes of expectation maximisation.

    ``reestimate`` maximises the expected log-density of the sources, plus the log-density of the parameters under a
    fixed prior (constants left out). ``log_prior`` is this second term for the current parameters.
    """

    def reestimate(self, batches: Iterable[Weighted]) -> None: ...

    def log_prior(self) -> float: ...


C = TypeVar("C")  # the counts of some batches


class Emissions(Protocol):
    """log p(x_t | state), up to a term that is the same for all states of a step.

    A call returns [B, T, S]; T is at least 1. ``lengths`` returns the number of steps of each row [B]. ``estimation``
    makes a first estimate from the ``batches``, in place. ``free`` [S] is True for the states that may emit steps whose
    states are unknown. If no state of any step is known, the estimate is random.
    """

    def __call__(self, source: Padded) -> Padded: ...

    def lengths(self, source: Padded) -> Tensor: ...

    def estimation(self, batches: Iterable[Weighted], free: Tensor) -> Estimation: ...


class CountedEmissions(Emissions, Protocol[C]):
    """Emissions whose first estimate needs only counts, which are sums over the batches.

    ``count`` counts some of the batches. ``estimation_from`` takes these parts, in any order. If all weights are
    integers, it gives the same emissions as ``estimation`` of all batches, bit for bit.
    """

    def count(self, batches: Iterable[Weighted]) -> C: ...

    def estimation_from(self, parts: Iterable[C], free: Tensor) -> Estimation: ...
