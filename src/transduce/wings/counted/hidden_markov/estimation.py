"""Baum-Welch: the estimation of hidden Markov models by expectation maximisation.

B rows, T steps, S states, H histories of states. A table of transitions is [1 + H, S + 1]: from the begin (row 0) and
from numpy.typing import NDArray
from each history to each state and to the end (the last column).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from transduce.core.chain import NEVER, Trellis
from transduce.core.types import Batch, Padded
from transduce.data.pairs import Pairs
from transduce.wings.counted.hidden_markov.base import Emissions, Estimation, Weighted

ROWS, CELLS = 1024, 2**23  # most rows of a batch, and most numbers of a table over its histories


class HiddenStates(Protocol):
    """A model of sources with hidden states, as ``BaumWelch`` uses it.

    ``states`` returns the trellis of a source's states. Its scores are log p(x, states), up to a term that does not
    depend on the states. ``allowed`` returns [B, T, S], True for the states that a target allows at each step.
    ``table`` [1 + H, S + 1] are the natural logarithms of the transitions.
    """

    emission: Emissions
    table: nn.Parameter

    def states(self, source: Padded) -> Trellis: ...

    def allowed(self, target: Padded, lengths_B: Tensor, steps: int) -> Tensor: ...


class BaumWelch:
    """Passes of expectation maximisation over sources whose states are partly known (Baum et al. 1970). Changes
    ``model`` in place.

    The posteriors of the states, given the known states, are counted in place of the states (Rabiner 1989, section
    III). ``table`` [1 + H, S + 1] has the first transitions as probabilities; 0 means impossible. It is also a
    Dirichlet prior: it counts like ``strength`` transitions from each row. So no pass lowers the log-density of the
    sources and the parameters. ``shares`` are batches of row numbers of ``pairs``, each with the weight of its counts
    (Nigam et al. 2000).
    """

    def __init__(
        self,
        model: HiddenStates,
        pairs: Pairs,
        estimation: Estimation,
        table: Tensor,
        strength: float,
        shares: list[tuple[NDArray[np.int64], float]],
    ) -> None:
        self.model, self.pairs, self.estimation, self.shares = model, pairs, estimation, shares
        self.prior = strength * table.double()
        self._maximise(torch.zeros_like(self.prior))

    def reestimate(self) -> float:
        """One pass. Returns the log-density, before the pass, of the sources, of their known states and of the
        parameters. The weights of ``shares`` count.
        """
        counts = torch.zeros_like(self.prior)
        total = self.log_prior()

        def expected() -> Iterator[Weighted]:
            nonlocal total
            for batch, weight in self._batches():
                trellis = constrained(self.model, batch)
                total += weight * float(trellis.log_normaliser.sum())
                counts.add_(trellis.counts().cpu(), alpha=weight)
                posterior_BTS = trellis.posteriors().exp().masked_fill(~trellis.mask[..., None], 0.0)
                yield batch.source, Padded(weight * posterior_BTS, trellis.lengths)

        self.estimation.reestimate(expected())
        self._maximise(counts)
        return total

    def log_prior(self) -> float:
        log_table = self.model.table.double().cpu()
        transitions = torch.where(self.prior > 0, self.prior * log_table, 0.0)
        return self.estimation.log_prior() + float(transitions.sum())

    def _maximise(self, counts: Tensor) -> None:
        both = counts + self.prior
        total = both.sum(1, keepdim=True)
        self.model.table.data = (both / total.where(total > 0, 1.0)).log().to(self.model.table)

    def _batches(self) -> Iterator[tuple[Batch, float]]:
        for rows, weight in self.shares:
            yield self.pairs.batch(rows).to(self.model.table.device), weight


def constrained(model: HiddenStates, batch: Batch) -> Trellis:
    """The trellis of the batch's sources, in float64. Only the states that the batch's targets allow are possible."""
    trellis = model.states(batch.source)
    allowed_BTS = model.allowed(batch.target, trellis.lengths, trellis.unary.shape[1])
    wide = {name: getattr(trellis, name).double() for name in ("unary", "transition", "start", "end")}
    return replace(trellis, **wide | {"unary": wide["unary"].masked_fill(~allowed_BTS, NEVER)})


def batches_of(lengths_N: NDArray[np.int32], states: int) -> list[NDArray[np.int64]]:
    """All row numbers, in batches of rows of similar length: at most ``ROWS`` rows, and at most ``CELLS`` numbers in a
    table of ``states`` numbers for each step. A batch of one row may exceed this.
    """
    order_N = np.argsort(lengths_N, kind="stable")
    batches, first = [], 0
    while first < len(order_N):
        size = ROWS
        while size > 1 and size * lengths_N[order_N[min(first + size, len(order_N)) - 1]] * states > CELLS:
            size //= 2
        batches.append(order_N[first : first + size])
        first += size
    return batches


Weigh = Callable[[Batch], Padded]


def weighted(pairs: Pairs, batches: list[NDArray[np.int64]], weigh: Weigh, device: torch.device) -> Iterator[Weighted]:
    """Yields the sources of each batch of row numbers on ``device``, with the weights of their states from
    ``weigh``.
    """
    for rows in batches:
        batch = pairs.batch(rows).to(device)
        yield batch.source, weigh(batch)
