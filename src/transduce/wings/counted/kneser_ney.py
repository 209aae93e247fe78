"""Smooths counted n-grams by interpolated modified Kneser-Ney (Chen and Goodman 1999, section 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from transduce.core.errors import UserError
from transduce.wings.counted.ngram_counts import Counts, Sequences, count
from transduce.wings.counted.ngrams import Ids, NGrams, Numbers, Truths, with_parents


def estimate(
    sequences: Sequences | Sequence[Ids],
    words: int,
    order: int,
    cutoffs: Sequence[int] = (),
    counting: Callable[[Sequences, int, int], Counts] = count,
) -> NGrams:
    """The model of n-grams of up to ``order`` words of the sequences. Each sequence gets an end (the word ``words``)
    and a begin (``words`` + 1).

    Words are 0 to ``words`` - 1. p(w | h) = (c(h w) - D(c(h w))) / c(h) + b(h) p(w | suffix of h). Below the highest
    order c counts different predecessors. b(h) is the weight that the discounts D leave. The empty n-gram gives all
    words but the begin the same probability.

    An n-gram of order n with a count of at most ``cutoffs[n - 1]`` is left out, unless a longer one begins with it. The
    last cut-off also holds for higher orders. The cut-off of order 1 must be 0 (``check_cutoffs``). b(h) gets the
    counts that are left out. ``counting`` counts the n-grams, as ``ngram_counts.count`` does.
    """
    check_cutoffs(cutoffs, order)
    text = sequences if isinstance(sequences, Sequences) else Sequences.of(sequences)
    counted = counting(text, words, order)
    keys, suffix, W = np.concatenate(counted.keys), np.concatenate(counted.suffixes), words + 2
    bounds = np.cumsum([1, *map(len, counted.keys)])
    adjusted = _adjusted(counted, W, bounds)
    keep = _kept(adjusted, keys, W, cutoffs)
    L = int(bounds[-1])
    probability, back_off = np.zeros(L), np.ones(L)
    probability[0] = 1 / (W - 1)
    for n in range(1, order + 1):
        own = slice(bounds[n - 1], bounds[n])
        parent, word = np.divmod(counted.keys[n - 1], W)
        amount = adjusted[n - 1]
        discount = _discounts(amount)[np.minimum(amount, 3).astype(np.int64)]
        left = np.where(keep[own], discount, amount)
        total, taken = (np.bincount(parent, numbers, L) for numbers in (amount, left))
        back_off[total > 0] = (taken / np.maximum(total, 1))[total > 0]
        probability[own] = (amount - left) / total[parent] + back_off[parent] * probability[suffix[own]]
        probability[own][word == W - 1] = 0.0
    found = NGrams.of(W, keys, suffix, probability, back_off)
    return found if keep.all() else found.select(keep)


def check_cutoffs(cutoffs: Sequence[int], order: int) -> None:
    """Raises UserError unless the cut-offs begin with 0, are 0 or more, and are at most ``order`` numbers."""
    if len(cutoffs) > order or any(number < 0 for number in cutoffs) or any(cutoffs[:1]):
        raise UserError(
            f"cutoffs = {list(cutoffs)}: 0 for order 1 was expected, then integers of 0 or more, {order} at most; "
            "the units limit the vocabulary (minimum_count, size)"
        )


def _adjusted(counted: Counts, words: int, bounds: Ids) -> list[Numbers]:
    """Kneser-Ney's counts of each order. They count occurrences in the highest order and at the beginning of a
    sequence, and different predecessors elsewhere. n-grams that end with a begin have 0, because nothing is followed by
    a begin.
    """
    found = list[Numbers]()
    for n, (keys, counts, first) in enumerate(zip(counted.keys, counted.counts, counted.first, strict=True), 1):
        count = counts.astype(np.float64)
        if n < len(counted.keys):
            preceded = np.bincount(counted.suffixes[n + 1] - bounds[n - 1], minlength=len(count))
            count = np.where(first, count, preceded).astype(np.float64)
        count[keys % words == words - 1] = 0.0
        found.append(count)
    return found


def _kept(adjusted: Sequence[Numbers], keys: Ids, words: int, cutoffs: Sequence[int]) -> Truths:
    """[L]: whether each n-gram stays in the model."""
    limits = [*cutoffs, *(list(cutoffs[-1:]) * len(adjusted) or [0] * len(adjusted))][: len(adjusted)]
    above = [count > limit for count, limit in zip(adjusted, limits, strict=True)]
    above[0][:] = True
    return with_parents(np.concatenate([[True], *above]), keys, words) if any(limits) else np.ones(1 + len(keys), bool)


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
