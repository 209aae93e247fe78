"""Fewer n-grams: counted in chunks, with cut-offs, and pruned by entropy, against slow definitions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from test_kneser_ney import BEGIN, END, LARGE, ORDERS, SMALL, Corpus, Slow, Word, Words, drawn

from transduce.wings.counted import ngram_counts
from transduce.wings.counted.kneser_ney import estimate
from transduce.wings.counted.ngram_lookup import NgramLookup
from transduce.wings.counted.ngrams import NGrams
from transduce.wings.counted.pruning import normalised, prune

SOME = [corpus for corpus in SMALL if corpus.words > 1]
SPARSE = [drawn(seed, rows=9, words=6, longest=6) for seed in range(3)]


def model_of(ngrams: NGrams) -> NgramLookup:
    model = NgramLookup().double()
    model.learn(ngrams)
    return model


def asked(model: NgramLookup, corpus: Corpus, history: Words) -> dict[Word, float]:
    """p(word | history) of each word, from the beginning of nothing: the history need not begin a sequence."""
    state = torch.zeros(1, dtype=torch.long)
    for word in history:
        _, state = model(state, torch.tensor([corpus.number(word)]))
    numbers = torch.tensor([corpus.number(word) for word in corpus.follow])
    found, _ = model(state.expand(len(numbers)), numbers)
    return dict(zip(corpus.follow, found.exp().tolist(), strict=True))


def histories(corpus: Corpus, longest: int) -> list[Words]:
    inner = range(corpus.words)
    every = [words for n in range(longest + 1) for words in itertools.product(inner, repeat=n)]
    return [*every, *((BEGIN, *words) for words in every if len(words) < longest)]


# ------------------------------------------------------------------ in chunks


@pytest.mark.parametrize("order", ORDERS)
def test_chunks_change_nothing(order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [corpus.ngrams(order) for corpus in (*SMALL, LARGE)]
    for chunk in (1, 11):
        monkeypatch.setattr(ngram_counts, "CHUNK", chunk)
        for corpus, wanted in zip((*SMALL, LARGE), whole, strict=True):
            found = corpus.ngrams(order)
            for name in ("keys", "suffix", "probability", "back_off", "after"):
                assert np.array_equal(getattr(found, name), getattr(wanted, name)), name


# ------------------------------------------------------------------- cut-offs


class SlowCut(Slow):
    """As ``Slow``, but an n-gram whose count does not exceed its cut-off is left out, unless a longer one begins with
    it; its count goes to the history's back-off."""

    def __init__(self, corpus: Corpus, order: int, limits: Sequence[int]) -> None:
        super().__init__(corpus, order)
        self.kept: set[Words] = set()
        for ngram in sorted(self.occurring, key=len, reverse=True):
            limit = limits[min(len(ngram), len(limits)) - 1]
            if len(ngram) == 1 or self.count(ngram) > limit or any(longer[:-1] == ngram for longer in self.kept):
                self.kept.add(ngram)

    def _uncached(self, history: Words) -> dict[Word, float]:
        uniform = dict.fromkeys(self.corpus.follow, 1 / len(self.corpus.follow))
        shorter = self._after(history[1:]) if history else uniform
        if history not in self.followers:
            return shorter
        counts = {word: self.count((*history, word)) for word in self.followers[history]}
        own, total = dict[Word, float](), sum(counts.values())
        for word, count in counts.items():
            if (*history, word) in self.kept:
                own[word] = count - self.discounts[len(history) + 1][min(count, 3) - 1]
        left = total - sum(own.values())
        return {word: (own.get(word, 0.0) + left * p) / total for word, p in shorter.items()}


@pytest.mark.parametrize("cutoffs", [(0, 1), (0, 0, 1), (0, 1, 0), (0, 2, 1)])
def test_cut_offs(cutoffs: tuple[int, ...]) -> None:
    for corpus in SOME:
        slow = SlowCut(corpus, 3, cutoffs)
        rows = [np.array(row, np.int64) for row in corpus.rows]
        ngrams = estimate(rows, corpus.words, 3, cutoffs)
        assert sum(ngrams.counts) == len({n for n in slow.kept if len(n) > 1}) + corpus.words + 2
        model = model_of(ngrams)
        for history in histories(corpus, 2):
            assert asked(model, corpus, history) == pytest.approx(slow.after(history))


def test_cut_offs_that_make_no_sense() -> None:
    for cutoffs in [(1,), (0, -1), (0, 0, 0)]:
        with pytest.raises(ValueError, match=r"cutoffs = \[.*\]: 0 for order 1 was expected"):
            estimate([np.array([0])], 1, 2, cutoffs)


# ------------------------------------------------------------------- entropy


def after_back_off(table: dict[Words, float], weights: dict[Words, float], history: Words, word: Word) -> float:
    if (*history, word) in table:
        return table[(*history, word)]
    return weights.get(history, 1.0) * after_back_off(table, weights, history[1:], word)


def weighted(table: dict[Words, float], words: Sequence[Word]) -> dict[Words, float]:
    """The back-off weights that make each history's words sum to 1, the shortest histories first."""
    weights: dict[Words, float] = {}
    for history in sorted({ngram[:-1] for ngram in table if len(ngram) > 1}, key=len):
        seen = [word for word in words if (*history, word) in table]
        lower = 1 - sum(after_back_off(table, weights, history[1:], word) for word in seen)
        weights[history] = (1 - sum(table[(*history, word)] for word in seen)) / lower if lower > 1e-9 else 1.0
    return weights


def slow_pruned(ngrams: NGrams, corpus: Corpus, threshold: float) -> dict[Words, float]:
    """Removes n-grams one by one from a dictionary, and measures the relative entropy over all words."""
    names: dict[int, Word] = {corpus.number(word): word for word in (*corpus.follow, BEGIN)}
    table: dict[Words, float] = {}
    for first, stop in itertools.pairwise(ngrams.bounds):
        for row, p in zip(ngrams.rows(first, stop).tolist(), ngrams.probability[first:stop].tolist(), strict=True):
            table[tuple(names[word] for word in row)] = p
    weights = weighted(table, corpus.follow)
    kept = {ngram for ngram in table if len(ngram) == 1}
    for ngram in sorted((each for each in table if len(each) > 1), key=len, reverse=True):
        history = ngram[:-1]
        without = {each: p for each, p in table.items() if each != ngram}
        seen = [w for w in corpus.follow if (*history, w) in without]
        lower = {w: after_back_off(table, weights, history[1:], w) for w in corpus.follow}
        weight = (1 - sum(without[(*history, w)] for w in seen)) / (1 - sum(lower[w] for w in seen))
        gain = 0.0
        for w in corpus.follow:
            p = after_back_off(table, weights, history, w)
            q = without.get((*history, w), weight * lower[w])
            gain += p * (math.log(p) - math.log(q))
        for place, w in enumerate(history):
            gain *= after_back_off(table, weights, history[:place], END if w == BEGIN else w)
        if math.expm1(gain) >= threshold or any(each[:-1] == ngram for each in kept):
            kept.add(ngram)
    return {ngram: table[ngram] for ngram in kept}


@pytest.mark.parametrize("threshold", [3e-3, 1e-2])
def test_entropy_pruning(threshold: float) -> None:
    for corpus in SPARSE:
        ngrams = corpus.ngrams(3)
        wanted = slow_pruned(ngrams, corpus, threshold)
        found = prune(ngrams, threshold)
        assert sum(found.counts) == len(wanted)
        assert sum(found.counts) < sum(ngrams.counts)
        weights = weighted(wanted, corpus.follow)
        model = model_of(found)
        for history in histories(corpus, 2):
            slow = {word: after_back_off(wanted, weights, history, word) for word in corpus.follow}
            assert asked(model, corpus, history) == pytest.approx(slow)
            assert sum(slow.values()) == pytest.approx(1.0)


def test_no_threshold_keeps_all() -> None:
    ngrams = LARGE.ngrams(3)
    assert prune(ngrams, 0.0) is ngrams
    assert prune(ngrams, 1e-3).counts < ngrams.counts
    assert np.allclose(normalised(ngrams).back_off, ngrams.back_off)
    with pytest.raises(ValueError, match="prune = -1: 0, which keeps all"):
        prune(ngrams, -1)
