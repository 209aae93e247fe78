"""The n-grams of a model with back-off, as sorted arrays.

L n-grams of all orders; W words, including the end and the begin of a sequence. An n-gram is a number. 0 is the empty
n-gram; then come the n-grams of one word, of two words, and so on. Within an order they are sorted by their parent (the
n-gram without its last word) and their last word. The suffix of an n-gram is the n-gram without its first word. M
n-grams of one order N.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Numbers = NDArray[np.float64]
Truths = NDArray[np.bool_]


@dataclass(frozen=True)
class NGrams:
    """The n-grams and their probabilities.

    ``keys`` [L - 1] are parent * W + last word of the n-grams 1 to L - 1, ascending. All words are n-grams of order 1.
    ``suffix`` [L] is the index of each suffix, or of the longest shorter one that is there. ``probability`` [L] is the
    probability, not its logarithm, of the last word after the others. ``back_off`` [L] is the weight of the suffix for
    words that were not seen after this n-gram. ``after`` [L] is the next history: the n-gram itself or its longest
    suffix that says something about a next word. A history is shorter than the order.
    """

    words: int
    keys: Ids
    suffix: Ids
    probability: Numbers
    back_off: Numbers
    after: Ids

    @classmethod
    def of(cls, words: int, keys: Ids, suffix: Ids, probability: Numbers, back_off: Numbers) -> NGrams:
        """The n-grams of ``words`` words, with the histories that follow from them."""
        return cls(words, keys, suffix, probability, back_off, _histories(words, keys, suffix, back_off))

    def __len__(self) -> int:
        return len(self.suffix)

    @property
    def end(self) -> int:
        return self.words - 2

    @property
    def begun(self) -> int:
        """The history at the beginning of a sequence."""
        return int(self.after[self.words])  # the begin is the last of the words

    @property
    def bounds(self) -> list[int]:
        """The index of the first n-gram of each order, from 1 on, and at the end the number of n-grams."""
        return _bounds(self.words, self.keys)

    @property
    def order(self) -> int:
        return len(self.bounds) - 1

    @property
    def counts(self) -> list[int]:
        """The number of n-grams of each order, from 1 on."""
        return [int(count) for count in np.diff(self.bounds)]

    @property
    def parent(self) -> Ids:
        """[L]: the index of each n-gram without its last word. The parent of the empty n-gram is itself."""
        return np.concatenate([[0], self.keys // self.words])

    @property
    def last(self) -> Ids:
        """[L]: the last word of each n-gram. The value 0 of the empty n-gram has no meaning."""
        return np.concatenate([[0], self.keys % self.words])

    def rows(self, first: int, stop: int) -> Ids:
        """The words [stop - first, N] of the n-grams from ``first`` to ``stop`` (exclusive), all of the same order."""
        number, columns = np.arange(first, stop), list[Ids]()
        while len(number) and number[0]:
            number, word = np.divmod(self.keys[number - 1], self.words)
            columns.insert(0, word)
        return np.stack(columns, 1) if columns else np.zeros((stop - first, 0), np.int64)

    def select(self, keep: Truths, back_off: Numbers | None = None) -> NGrams:
        """The n-grams where the mask ``keep`` [L] is True, as new arrays. ``back_off`` [L] replaces their back-off
        weights; None keeps them.

        The empty n-gram, all words and the parent of each kept n-gram must be kept, which is not checked.
        """
        number = np.cumsum(keep) - 1
        suffix = self.suffix
        while not keep[suffix].all():
            suffix = np.where(keep[suffix], suffix, self.suffix[suffix])
        parent, word = np.divmod(self.keys[keep[1:]], self.words)
        weights = self.back_off if back_off is None else back_off
        return NGrams.of(
            self.words,
            number[parent] * self.words + word,
            number[suffix[keep]],
            self.probability[keep],
            weights[keep],
        )


def with_parents(keep: Truths, keys: Ids, words: int) -> Truths:
    """A copy of the mask ``keep`` [L] that is also True for all n-grams that kept n-grams begin with."""
    keep = keep.copy()
    for first, stop in [*pairwise(_bounds(words, keys))][:0:-1]:
        own = keys[first - 1 : stop - 1]
        keep[own[keep[first:stop]] // words] = True
    return keep


def _bounds(words: int, keys: Ids) -> list[int]:
    bounds = [1]
    while bounds[-1] <= len(keys):
        bounds.append(1 + int(np.searchsorted(keys, bounds[-1] * words)))
    return bounds


def _histories(words: int, keys: Ids, suffix: Ids, back_off: Numbers) -> Ids:
    """``NGrams.after``. An n-gram is a history if others begin with it or if its back-off weight is not 1."""
    useful = back_off != 1
    useful[keys // words] = True
    after = np.zeros(len(suffix), np.int64)
    bounds = _bounds(words, keys)
    for first, stop in pairwise(bounds):
        own = slice(first, stop)
        after[own] = np.where(useful[own], np.arange(first, stop), after[suffix[own]])
    return after


# ------------------------------------------------------------- n-grams as rows


@dataclass(frozen=True)
class Level:
    """n-grams of one order, in any order: their words ``rows`` [M, N], and the natural logarithms [M] of their
    probabilities and back-off weights.
    """

    rows: NDArray[np.int32]
    log_prob: Numbers
    back_off: Numbers


def ngrams_of(levels: Sequence[Level], words: int) -> NGrams:
    """The n-grams of ``levels``, which has order n at index n - 1, over ``words`` words (W). Each of the W words must
    be in the first level once, and no n-gram may occur twice (``repeated``).

    If the parent of an n-gram is missing, it is added with the probability that the others give it, and with the
    back-off weight 1. This changes no query.
    """
    sorted_levels = _complete(levels)
    keys, suffixes = [np.arange(words)], [np.zeros(1 + words, np.int64)]
    for level in sorted_levels[1:]:
        known = np.concatenate(keys)
        parent = 1 + _find(level.rows[:, :-1], known, words)
        keys.append(parent * words + level.rows[:, -1])
        suffixes.append(_suffixes(level.rows, np.concatenate(keys), words))
    every_key, suffix = np.concatenate(keys), np.concatenate(suffixes)
    log_prob = np.concatenate([[0.0], *(level.log_prob for level in sorted_levels)])
    back_off = np.concatenate([[0.0], *(level.back_off for level in sorted_levels)])
    _fill(log_prob, back_off, np.concatenate([[0], every_key // words]), suffix, _bounds(words, every_key))
    return NGrams.of(words, every_key, suffix, np.exp(log_prob), np.exp(back_off))


def repeated(rows: NDArray[np.int32]) -> int | None:
    """The index of a row [M, N] that occurred before; None if all rows differ."""
    order = np.lexsort(rows.T[::-1])
    alike = (rows[order][1:] == rows[order][:-1]).all(1)
    return int(order[1:][alike].min()) if alike.any() else None


def _complete(levels: Sequence[Level]) -> list[Level]:
    """The levels, sorted, each with the parents of the next one. The log-probabilities of added n-grams are NaN."""
    found = list[Level]()
    parents = np.zeros((0, len(levels)), np.int32)
    for level in reversed(levels):
        rows = np.concatenate([level.rows, parents])  # an n-gram of the file before its copy: lexsort is stable
        order = np.lexsort(rows.T[::-1])
        rows = rows[order]
        new = np.ones(len(rows), bool)
        new[1:] = (rows[1:] != rows[:-1]).any(1)
        added = len(parents)
        log_prob = np.concatenate([level.log_prob, np.full(added, np.nan)])[order][new]
        found.append(Level(rows[new], log_prob, np.concatenate([level.back_off, np.zeros(added)])[order][new]))
        parents = found[-1].rows[:, :-1]
    return found[::-1]


def _find(rows: NDArray[np.int32], keys: Ids, words: int) -> Ids:
    """The index in ``keys`` [M] of each row [M, N], or -1."""
    number = np.zeros(len(rows), np.int64)
    there = np.ones(len(rows), bool)
    for word in rows.T:
        key = number * words + word
        place = np.searchsorted(keys, key).clip(max=len(keys) - 1)
        there &= keys[place] == key
        number = np.where(there, place + 1, 0)
    return np.where(there, number - 1, -1)


def _suffixes(rows: NDArray[np.int32], keys: Ids, words: int) -> Ids:
    """The n-gram [M] that is the longest proper suffix of each row and is there."""
    suffix, open_rows = np.zeros(len(rows), np.int64), np.arange(len(rows))
    for start in range(1, rows.shape[1]):
        place = _find(rows[open_rows, start:], keys, words)
        suffix[open_rows[place >= 0]] = place[place >= 0] + 1
        open_rows = open_rows[place < 0]
    return suffix


def _fill(log_prob: Numbers, back_off: Numbers, parent: Ids, suffix: Ids, bounds: list[int]) -> None:
    """Replaces each NaN by the log-probability that shorter n-grams give, in place."""
    for first, stop in pairwise(bounds):
        empty = first + np.flatnonzero(np.isnan(log_prob[first:stop]))
        total, history, goal = log_prob[suffix[empty]], parent[empty], parent[suffix[empty]]
        while (going := history != goal).any():
            total = total + np.where(going, back_off[history], 0.0)
            history = np.where(going, suffix[history], history)
        log_prob[empty] = total
