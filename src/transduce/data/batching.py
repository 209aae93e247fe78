"""Divides pairs into batches for training, in an order that depends only on the seed and the epoch.

All pairs are shuffled and cut into pools. Each pool is sorted by length and cut into batches. Then the batches are
shuffled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from transduce.core.types import Batch
from transduce.data.corpora import DataError
from transduce.data.pairs import Pairs

Ids = NDArray[np.int64]
MOST = 2**31 - 1  # upper limit of all options: a pool's tokens are counted in 64 bits


@dataclass(frozen=True)
class Batching:
    """How pairs are combined into batches.

    Padding counts: the number of pairs in a batch, times the length of its longest source or target, is at most
    ``tokens``. A pair longer than ``tokens`` is a batch of its own. A batch has at most ``sentences`` pairs; None sets
    no such limit. The pairs of a batch have similar lengths, because they come from one pool, sorted by length. A pool
    is a random set of about ``pool`` batches.

    If the training set has several corpora, a corpus of n pairs with the weight w has a share of the pairs of an epoch
    in proportion to w n^(1/``temperature``). So the temperature 1 keeps the sizes, and a high one makes the shares of
    equal weights nearly equal (Arivazhagan et al. 2019). An epoch has as many pairs as all corpora together; a pair of
    a small corpus may occur several times, and others may wait for another epoch. Raises DataError for a temperature
    below 1, and for any other value below 1 or above 2**31 - 1.
    """

    tokens: int = 2048
    sentences: int | None = None
    pool: int = 100
    temperature: float = 1.0

    def __post_init__(self) -> None:
        for name in ("tokens", "sentences", "pool"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= MOST:
                raise DataError(f"batching.{name} = {value}: expected at least 1, at most {MOST}")
        if not self.temperature >= 1:
            raise DataError(f"batching.temperature = {self.temperature}: expected at least 1 (the corpora's own sizes)")


@dataclass(frozen=True)
class Place:
    """The position of training in its data: the number of the epoch, from 0, and how many batches of this epoch this
    process has already taken.
    """

    epoch: int = 0
    batch: int = 0


def drawn_pairs(sizes: Sequence[int], weights: Sequence[float], temperature: float) -> tuple[int, ...]:
    """How many pairs of each corpus an epoch has: as many as all corpora together, in proportion to weight times
    size^(1/temperature). A corpus without pairs has none.

    Fractions are rounded so that the sum is exact: the largest are rounded up.
    """
    shares = np.array(weights) * np.array(sizes, float) ** (1 / temperature)
    exact = sum(sizes) * shares / shares.sum()
    counts = np.floor(exact + 1e-9).astype(np.int64)
    for place in np.argsort(counts - exact, kind="stable")[: sum(sizes) - int(counts.sum())]:
        counts[place] += 1
    return tuple(counts.tolist())


class Batches:
    """Divides the pairs into batches, anew in each epoch, for process ``rank`` (from 0) of ``world`` processes. All
    processes get equally many batches.

    Process r takes batches r, r + world, and so on, of the epoch's shuffled batches. So in each step all processes
    together take what one process takes in ``world`` steps. Up to world - 1 batches of an epoch are left out.
    ``weights`` has the weight of each corpus of the pairs (default: equal). Raises DataError unless 0 <= rank < world.
    """

    def __init__(
        self,
        pairs: Pairs,
        batching: Batching,
        seed: int,
        rank: int = 0,
        world: int = 1,
        weights: Sequence[float] | None = None,
    ) -> None:
        if not 0 <= rank < world:
            raise DataError(f"rank {rank} of {world}: expected 0 <= rank < world")
        self.pairs, self.batching, self.seed, self.rank, self.world = pairs, batching, seed, rank, world
        self.draws = drawn_pairs(pairs.corpora, weights or [1.0] * len(pairs.corpora), batching.temperature)

    @cached_property
    def per_epoch(self) -> int:
        """The number of this process's batches in epoch 0. The shuffle decides, so other epochs may have slightly more
        or fewer.
        """
        return len(self.epoch(0))

    def epoch(self, number: int) -> list[Ids]:
        """Returns this process's batches of epoch ``number`` (from 0), each as an array of the indices of its pairs.

        The same data, settings, seed, number and ``world`` give the same batches. Raises DataError for fewer batches
        than processes.
        """
        random = np.random.default_rng([self.seed, number])
        source_N, target_N = self.pairs.source_lengths, self.pairs.target_lengths
        order_N = self._order(random)
        pool = self._pool_size(np.maximum(source_N, target_N))
        pools_N = np.arange(len(order_N)) // pool
        order_N = order_N[np.lexsort((source_N[order_N], target_N[order_N], pools_N))]
        bounds = self._cut(source_N[order_N], target_N[order_N], pool)
        whole = len(bounds) // self.world * self.world
        if not whole:
            raise DataError(f"{len(bounds)} batches for {self.world} processes: use smaller batches or fewer processes")
        chosen = random.permutation(len(bounds))[:whole][self.rank :: self.world]
        return [order_N[bounds[index][0] : bounds[index][1]] for index in chosen]

    def iterate(self, place: Place) -> Iterator[tuple[Batch, Place]]:
        """Yields this process's batches from ``place`` on, without end, each with the place after it: the place from
        which to continue.

        Raises DataError if the epoch has fewer batches than ``place`` says were taken.
        """
        while True:
            ids = self.epoch(place.epoch)
            if place.batch > len(ids):
                raise DataError(f"batch {place.batch} of an epoch of {len(ids)}: data, batching or ranks have changed")
            for number in range(place.batch, len(ids)):
                yield self.pairs.batch(ids[number]), Place(place.epoch, number + 1)
            place = Place(place.epoch + 1)

    def _order(self, random: np.random.Generator) -> Ids:
        """The pairs of an epoch in random order. If all corpora have the share of their size, it has each pair once."""
        if self.draws == self.pairs.corpora:
            return random.permutation(len(self.pairs))
        first, found = 0, []
        for size, draws in zip(self.pairs.corpora, self.draws, strict=True):
            whole, rest = divmod(draws, size) if size else (0, 0)
            found += [np.arange(first, first + size)] * whole
            found.append(first + random.permutation(size)[:rest])
            first += size
        return random.permutation(np.concatenate(found))

    def _pool_size(self, longest_N: NDArray[np.int32]) -> int:
        """The number of pairs in a pool. ``longest_N`` is the longer side of each pair."""
        worth = max(1, int(self.batching.tokens / max(1.0, float(longest_N.mean()))))
        return self.batching.pool * min(worth, self.batching.sentences or worth)

    def _cut(self, source_N: NDArray[np.int32], target_N: NDArray[np.int32], pool: int) -> list[tuple[int, int]]:
        """Cuts an epoch into batches. Takes the lengths [N] of its pairs in their sorted order. Returns, for each
        batch, the position of its first pair in that order and the position after its last.

        A batch has as many pairs as the limits allow, and never goes across the end of a pool of ``pool`` pairs.
        """
        longest_N = np.maximum(source_N, target_N).astype(np.int64)
        bounds, begin = [], 0
        while begin < len(longest_N):
            # Targets grow within a pool, so at most this many rows fit; one comparison covers a whole batch.
            reach = min(self.batching.tokens // int(target_N[begin]), self.batching.sentences or self.batching.tokens)
            window = longest_N[begin : min(begin + max(1, reach), (begin // pool + 1) * pool)]
            padded = np.maximum.accumulate(window) * np.arange(1, len(window) + 1)
            end = begin + max(1, int(np.searchsorted(padded, self.batching.tokens, side="right")))
            bounds.append((begin, end))
            begin = end
        return bounds
