"""Counts n-grams and smooths them by interpolated modified Kneser-Ney (Chen and Goodman 1999, section 3).

L n-grams of all orders; W words, including the end and the begin of a sequence. An n-gram is a number. 0 is the empty
n-gram; then come those of one word, of two words, and so on. Within an order they are sorted by their parent (the
n-gram without its last word) and their last word. The suffix of an n-gram is the n-gram without its first word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class NGrams:
    """The n-grams and their probabilities.

    ``keys`` [L - 1] are parent * W + last word of the n-grams 1 to L - 1, ascending. ``suffix`` [L] is the index of
    each suffix. ``probability`` [L], not its logarithm, is that of the last word after the others. ``back_off`` [L] is
    the weight of the suffix for words that were not seen after this n-gram. ``after`` [L] is the next history: the
    n-gram itself or its longest suffix that was seen before another word. A history is shorter than the order.
    """

    words: int
    keys: Ids
    suffix: Ids
    probability: Numbers
    back_off: Numbers
    after: Ids

    @property
    def end(self) -> int:
        return self.words - 2

    @property
    def begun(self) -> int:
        """The history at the beginning of a sequence."""
        return int(self.after[self.words])  # the begin is the last of the words


def estimate(sequences: Sequence[Ids], words: int, order: int) -> NGrams:
    """Counts sequences of words, and adds an end (the word ``words``) and a begin (``words`` + 1) to each.

    Words are 0 to ``words`` - 1. p(w | h) = (c(h w) - D(c(h w))) / c(h) + b(h) p(w | suffix of h). Below the highest
    order c counts different predecessors. b(h) is the weight that the discounts D leave. The empty n-gram gives all
    words but the begin the same probability.
    """
    counted = _count(sequences, words, order)
    keys, suffix, W = np.concatenate(counted.keys), np.concatenate(counted.suffixes), words + 2
    bounds = np.cumsum([1, *map(len, counted.keys)])
    L = int(bounds[-1])
    probability, back_off, after = np.zeros(L), np.ones(L), np.zeros(L, np.int64)
    probability[0] = 1 / (W - 1)
    parents = np.zeros(L, bool)
    parents[keys // W] = True
    for n in range(1, order + 1):
        own = slice(bounds[n - 1], bounds[n])
        parent, word = np.divmod(counted.keys[n - 1], W)
        count = counted.counts[n - 1].astype(np.float64)
        if n < order:
            preceded = np.bincount(counted.suffixes[n + 1] - bounds[n - 1], minlength=len(count))
            count = np.where(counted.first[n - 1], count, preceded).astype(np.float64)
        count[word == W - 1] = 0.0  # nothing is followed by a begin
        discount = _discounts(count)[np.minimum(count, 3).astype(np.int64)]
        total, taken = (np.bincount(parent, amount, L) for amount in (count, discount))
        back_off[total > 0] = (taken / np.maximum(total, 1))[total > 0]
        probability[own] = (count - discount) / total[parent] + back_off[parent] * probability[suffix[own]]
        probability[own][word == W - 1] = 0.0
        after[own] = np.where(parents[own], np.arange(bounds[n - 1], bounds[n]), after[suffix[own]])
    return NGrams(W, keys, suffix, probability, back_off, after)


@dataclass(frozen=True)
class _Counts:
    """The n-grams of each order by key: their suffixes, their counts, and whether they begin a sequence.

    An n-gram that begins a sequence has no predecessor.
    """

    keys: list[Ids]
    suffixes: list[Ids]
    counts: list[Ids]
    first: list[NDArray[np.bool_]]


def _count(sequences: Sequence[Ids], words: int, order: int) -> _Counts:
    end, begin, W = words, words + 1, words + 2
    text = np.concatenate([part for row in sequences for part in ([begin], row, [end])])
    lengths = np.array([len(row) + 2 for row in sequences])
    place = np.arange(len(text)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    every = np.arange(W)  # of one word there is each, seen or not
    found = _Counts(
        [every], [np.zeros(1, np.int64), np.zeros(W, np.int64)], [np.bincount(text, minlength=W)], [every == begin]
    )
    shorter = 1 + text  # at each place the n-gram that ends there, of one word less
    known = 1 + W
    for n in range(2, order + 1):
        there = np.flatnonzero(place >= n - 1)
        parent = shorter[there - 1]
        key, at, number, count = np.unique(
            parent * W + text[there], return_index=True, return_inverse=True, return_counts=True
        )
        found.keys.append(key)
        found.suffixes.append(shorter[there[at]])
        found.counts.append(count)
        found.first.append(place[there[at]] == n - 1)
        shorter = np.zeros(len(text), np.int64)
        shorter[there] = known + number
        known += len(key)
    return found


def _discounts(count: Numbers) -> Numbers:
    """The discounts of counts 0, 1, 2, and 3 or more (eq. 26).

    The discount is a half where eq. 26 has no answer: a count of counts is 0, or the discounts would leave nothing,
    which would make unseen words impossible.
    """
    n1, n2, n3, n4 = (float((count == size).sum()) for size in (1, 2, 3, 4))
    half = np.array([0.0, 0.5, 0.5, 0.5])
    if not n1 * n2 * n3 * n4:
        return half
    y = n1 / (n1 + 2 * n2)
    taken = np.array([0.0, 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3])
    return taken if (taken[1:] > 0).all() else half
