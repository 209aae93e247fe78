"""Phrase pairs of word-aligned sentences (Och and Ney 2004, section 2.1; Koehn, Och and Marcu 2003, section 3).

X extracted phrase pairs, with repetitions; L links; P and Q places of the source and the target corpus.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transduce.wings.alignment.links import Links

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Corpus:
    """One side of a corpus: the words of all sentences one after the other, without EOS.

    ``ids`` [P] are the words, from 0 to ``words`` - 1. ``offsets`` [N + 1] are the places where the N sentences begin;
    the last is P.
    """

    ids: Ids
    offsets: Ids
    words: int

    @classmethod
    def of(cls, sentences: Sequence[Ids], words: int) -> Corpus:
        lengths = np.array([0, *map(len, sentences)], np.int64)
        return cls(np.concatenate([np.zeros(0, np.int64), *sentences]), np.cumsum(lengths), words)

    def part(self, first: int, last: int) -> Corpus:
        """The sentences from ``first`` to ``last`` (exclusive)."""
        offsets = self.offsets[first : last + 1]
        return Corpus(self.ids[offsets[0] : offsets[-1]], offsets - offsets[0], self.words)

    @property
    def left(self) -> Ids:
        """[P]: the number of words from each place to the end of its sentence."""
        return np.repeat(self.offsets[1:], np.diff(self.offsets)) - np.arange(len(self.ids))

    @property
    def begun(self) -> Ids:
        """[P]: the number of words of the same sentence before each place."""
        return np.arange(len(self.ids)) - np.repeat(self.offsets[:-1], np.diff(self.offsets))


@dataclass(frozen=True)
class Extracted:
    """X phrase pairs: the source places ``source_X`` to ``source_end_X`` (exclusive), and the same of the target.

    Places count from the beginning of the corpus.
    """

    source_X: Ids
    source_end_X: Ids
    target_X: Ids
    target_end_X: Ids

    def __len__(self) -> int:
        return len(self.source_X)

    @property
    def source_length_X(self) -> Ids:
        return self.source_end_X - self.source_X

    @property
    def target_length_X(self) -> Ids:
        return self.target_end_X - self.target_X


def extract(source: Corpus, target: Corpus, links: Links, longest: int) -> Extracted:
    """All phrase pairs of at most ``longest`` words on either side that are consistent with the links.

    A pair is consistent if it has at least one link, and if no link leads from one of its words out of it. Target words
    without links at the edge of a pair may belong to it or not: both pairs are extracted. Source words without links
    are covered because every source phrase is tried.
    """
    source_L = source.offsets[links.pair_L] + links.source_L
    target_L = target.offsets[links.pair_L] + links.target_L
    first_P, last_P = _reach(source_L, target_L, len(source.ids))
    first_Q, last_Q = _reach(target_L, source_L, len(target.ids))
    free_Q = last_Q < 0
    before_Q, after_Q = _free_before(free_Q, target.begun), _free_before(free_Q[::-1], target.left[::-1] - 1)[::-1]
    found = []
    for length in range(1, longest + 1):
        start_C = np.flatnonzero(source.left >= length)
        low_C, high_C = _over(start_C, length, first_P, last_P)
        size_C = high_C - low_C + 1
        start_C, low_C, high_C, size_C = (
            column[(high_C >= 0) & (size_C <= longest)] for column in (start_C, low_C, high_C, size_C)
        )
        inside_C = np.ones(len(start_C), bool)
        for step in range(longest):
            here_C = low_C + np.minimum(step, size_C - 1)
            linked_C = last_Q[here_C] >= 0
            inside_C &= ~linked_C | ((first_Q[here_C] >= start_C) & (last_Q[here_C] < start_C + length))
        found.append(
            _extended(start_C[inside_C], length, low_C[inside_C], high_C[inside_C], before_Q, after_Q, longest)
        )
    columns = np.concatenate(found, 1) if found else np.zeros((4, 0), np.int64)
    return Extracted(*columns)


# --------------------------------------------------------------------- details


def _reach(from_L: Ids, to_L: Ids, places: int) -> tuple[Ids, Ids]:
    """For each place, the first and the last place of the other side that it is linked with; -1 as the last if none."""
    first, last = np.full(places, np.iinfo(np.int64).max), np.full(places, -1, np.int64)
    np.minimum.at(first, from_L, to_L)
    np.maximum.at(last, from_L, to_L)
    return first, last


def _over(start_C: Ids, length: int, first_P: Ids, last_P: Ids) -> tuple[Ids, Ids]:
    """The first and the last place of the other side that the ``length`` places from each start on are linked with."""
    low_C, high_C = first_P[start_C], last_P[start_C]
    for step in range(1, length):
        low_C = np.minimum(low_C, first_P[start_C + step])
        high_C = np.maximum(high_C, last_P[start_C + step])
    return low_C, high_C


def _free_before(free_Q: NDArray[np.bool_], begun_Q: Ids) -> Ids:
    """[Q]: the number of places without a link directly before each place, in the same sentence."""
    place_Q = np.arange(len(free_Q))
    blocked_Q = np.maximum.accumulate(np.where(free_Q, -1, place_Q)) if len(free_Q) else place_Q
    before_Q = np.concatenate([[-1], blocked_Q[:-1]])[: len(free_Q)]
    free: Ids = np.minimum(place_Q - 1 - before_Q, begun_Q)
    return free


def _extended(
    start_C: Ids, length: int, low_C: Ids, high_C: Ids, before_Q: Ids, after_Q: Ids, longest: int
) -> NDArray[np.int64]:
    """[4, X]: each pair with every extension of its target by words without links, up to ``longest`` words."""
    found = []
    room_C = longest - (high_C - low_C + 1)
    more_C, after_C = np.minimum(before_Q[low_C], room_C), np.minimum(after_Q[high_C], room_C)
    for back in range(longest):
        for forth in range(longest - back):
            kept = (back <= more_C) & (forth <= after_C) & (back + forth <= room_C)
            if kept.any():
                start = start_C[kept]
                found.append(np.stack([start, start + length, low_C[kept] - back, high_C[kept] + 1 + forth]))
    return np.concatenate(found, 1) if found else np.zeros((4, 0), np.int64)
