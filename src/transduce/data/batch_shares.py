"""Divides a batch among processes, so that each has about as many padded tokens."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from transduce.core.types import Batch, Padded


def shard(batch: Batch, rank: int, world: int) -> tuple[Batch, bool]:
    """The part of a batch for process ``rank`` (from 0) of ``world``, and whether it counts.

    The parts of all processes are the rows of the batch, in order. The part with the most padded tokens has as few as
    possible. If there are fewer rows than processes, some get a row that another process has: then it does not count.
    """
    if world == 1:
        return batch, True
    longest_B = np.maximum(batch.source.lengths.numpy(), batch.target.lengths.numpy())
    bounds = cut(longest_B, world)
    begin, end = bounds[rank] if rank < len(bounds) else (0, 1)
    return rows_of(batch, slice(begin, end)), rank < len(bounds)


def rows_of(batch: Batch, rows: slice) -> Batch:
    """These rows of a batch of pairs, with no more padding than they need."""
    return Batch(_rows(batch.source, rows), _rows(batch.target, rows), batch.ids[rows])


def cut(longest_B: NDArray[np.int64], parts: int) -> list[tuple[int, int]]:
    """Cuts rows of the given lengths into at most ``parts`` parts: the first row of each and the row after its last.

    The padded tokens of a part are its rows times its longest row. Their maximum over the parts is as small as
    possible.
    """
    low, high = int(longest_B.max()), int(longest_B.max()) * len(longest_B)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if len(_filled(longest_B, middle)) <= parts else (middle + 1, high)
    return _filled(longest_B, low)


def _filled(longest_B: NDArray[np.int64], most: int) -> list[tuple[int, int]]:
    """The parts, each with as many rows as have at most ``most`` padded tokens. No row is longer than ``most``."""
    found, begin = [], 0
    while begin < len(longest_B):
        window = longest_B[begin:].astype(np.int64)
        padded = np.maximum.accumulate(window) * np.arange(1, len(window) + 1)
        end = begin + int(np.searchsorted(padded, most, side="right"))
        found.append((begin, end))
        begin = end
    return found


def _rows(side: Padded, rows: slice) -> Padded:
    lengths = side.lengths[rows]
    return Padded(side.values[rows, : int(lengths.max())], lengths)
