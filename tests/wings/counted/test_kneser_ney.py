"""Interpolated modified Kneser-Ney against a slow model of dictionaries, one word at a time and in batches."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from transduce.models.weights import load_weights, save_weights
from transduce.wings.counted.kneser_ney import estimate
from transduce.wings.counted.ngram_counts import Sequences, count, merged
from transduce.wings.counted.ngram_lookup import NgramLookup
from transduce.wings.counted.ngrams import NGrams

Word = int | str
Words = tuple[Word, ...]
BEGIN, END = "begin", "end"
ORDERS = [1, 2, 3, 4]


@dataclass(frozen=True)
class Corpus:
    rows: tuple[tuple[int, ...], ...]
    words: int

    def number(self, word: Word) -> int:
        return word if isinstance(word, int) else {END: self.words, BEGIN: self.words + 1}[word]

    @property
    def follow(self) -> list[Word]:
        """All words that can follow, and the end. The begin cannot follow."""
        return [*range(self.words), END]

    def model(self, order: int) -> NgramLookup:
        model = NgramLookup().double()
        model.learn(self.ngrams(order))
        return model

    def ngrams(self, order: int) -> NGrams:
        return estimate([np.array(row, np.int64) for row in self.rows], self.words, order)


def drawn(seed: int, rows: int, words: int, longest: int) -> Corpus:
    """Random sequences of frequent and rare words. Each word occurs at least once, and one sequence is empty."""
    generator = np.random.default_rng(seed)
    share = 1 / np.arange(1, words + 1)
    lengths = generator.integers(1, longest + 1, rows)
    sequences = [tuple(generator.choice(words, n, p=share / share.sum()).tolist()) for n in lengths]
    missing = sorted({*range(words)} - {word for row in sequences for word in row})
    return Corpus((*sequences, (), tuple(missing)), words)


SMALL = [
    Corpus(((0,),), 1),
    Corpus(((), ()), 0),
    Corpus(((0, 0, 0, 0, 0, 0),), 1),
    Corpus(((0, 1), (0, 1), (1, 0), (2,), ()), 3),
    Corpus(((0, 1),), 3),  # a word that is never seen
    Corpus(((2, 0), (2, 1, 1), (0,), (0,), (0, 1, 0, 0)), 3),  # by eq. 26, the discount of counts of 2 would be 0
    *(drawn(seed, rows=2 + 2 * seed, words=2 + seed % 3, longest=5) for seed in range(4)),
]
LARGE = drawn(5, rows=80, words=30, longest=9)  # each order has n-grams that occur once, twice, three and four times


# ------------------------------------------------------------------ the slow model


class Slow:
    """The definitions one by one: Chen and Goodman 1999, eq. 24 to 26, and Kneser-Ney's counts for lower orders."""

    def __init__(self, corpus: Corpus, order: int) -> None:
        self.corpus, self.order = corpus, order
        texts: list[Words] = [(BEGIN, *row, END) for row in corpus.rows]
        self.occurring = Counter(
            text[i : i + n] for n in range(1, order + 1) for text in texts for i in range(len(text) + 1 - n)
        )
        self.followers: dict[Words, list[Word]] = {}
        self.preceded: Counter[Words] = Counter()
        for ngram in self.occurring:
            if ngram[-1] != BEGIN:
                self.followers.setdefault(ngram[:-1], []).append(ngram[-1])
            self.preceded[ngram[1:]] += 1
        self.discounts = {n: self._discounts(n) for n in range(1, order + 1)}
        self._after = cache(self._uncached)

    def count(self, ngram: Words) -> int:
        own = len(ngram) == self.order or ngram[0] == BEGIN
        return self.occurring[ngram] if own else self.preceded[ngram]

    def _discounts(self, n: int) -> tuple[float, float, float]:
        sizes = Counter(self.count(ngram) for ngram in self.occurring if len(ngram) == n and ngram[-1] != BEGIN)
        n1, n2, n3, n4 = (sizes[size] for size in (1, 2, 3, 4))
        if 0 in (n1, n2, n3, n4):
            return 0.5, 0.5, 0.5
        y = n1 / (n1 + 2 * n2)
        taken = 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3
        return taken if min(taken) > 0 else (0.5, 0.5, 0.5)

    def after(self, history: Words) -> dict[Word, float]:
        """p(word | history) of every word that can follow. The history can have any length."""
        return self._after(history[max(len(history) - self.order + 1, 0) :])

    def _uncached(self, history: Words) -> dict[Word, float]:
        uniform = dict.fromkeys(self.corpus.follow, 1 / len(self.corpus.follow))
        shorter = self._after(history[1:]) if history else uniform
        if history not in self.followers:
            return shorter
        counts = {word: self.count((*history, word)) for word in self.followers[history]}
        taken = {word: self.discounts[len(history) + 1][min(count, 3) - 1] for word, count in counts.items()}
        total, left = sum(counts.values()), sum(taken.values())
        return {word: (counts.get(word, 0) - taken.get(word, 0) + left * p) / total for word, p in shorter.items()}


# ------------------------------------------------------------------ asking word by word


def walked(model: NgramLookup, corpus: Corpus, sequences: Sequence[Words]) -> Tensor:
    """The states [E] after each sequence, read from its begin."""
    history_E = torch.full((len(sequences),), model.begun)
    for place in range(max(map(len, sequences))):
        going = [e for e, words in enumerate(sequences) if len(words) > place]
        word_E = torch.tensor([corpus.number(sequences[e][place]) for e in going])
        history_E[going] = model(history_E[going], word_E)[1]
    return history_E


def answers(model: NgramLookup, corpus: Corpus, history_E: Tensor) -> Tensor:
    """log p [E, words + 1] of every word that can follow."""
    word_W = torch.tensor([corpus.number(word) for word in corpus.follow])
    log_prob: Tensor = model(history_E.repeat_interleave(len(word_W)), word_W.repeat(len(history_E)))[0]
    return log_prob.view(len(history_E), len(word_W))


def check(corpus: Corpus, order: int, sequences: Sequence[Words]) -> None:
    """Checks the probability of every word after these sequences, and that the probabilities sum to 1."""
    model, slow = corpus.model(order), Slow(corpus, order)
    histories = walked(model, corpus, sequences)
    found = answers(model, corpus, histories).exp()
    assert_close(model.every(histories)[:, :-1].exp(), found, rtol=1e-10, atol=0)
    distributions = [slow.after((BEGIN, *words)) for words in sequences]
    expected = [[distribution[word] for word in corpus.follow] for distribution in distributions]
    assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-10, atol=0)
    assert_close(found.sum(1), torch.ones(len(sequences), dtype=torch.float64), rtol=1e-10, atol=0)


def all_sequences(corpus: Corpus, longest: int) -> list[Words]:
    return [words for n in range(longest + 1) for words in itertools.product(range(corpus.words), repeat=n)]


def some_sequences(corpus: Corpus, count: int) -> list[Words]:
    """Prefixes of counted sequences, random sequences, and counted prefixes after a random beginning."""
    generator = np.random.default_rng(1)
    seen = [corpus.rows[i] for i in generator.choice(len(corpus.rows), count)]
    seen = [row[: generator.integers(0, len(row) + 1)] for row in seen]
    random = [tuple(generator.integers(0, corpus.words, n).tolist()) for n in generator.integers(0, 6, count)]
    return [*seen, *random, *(a[:3] + b for a, b in zip(random, seen, strict=True))]


# ------------------------------------------------------------------ the probabilities


def test_bigrams_by_hand() -> None:
    """The sequences are a b, a b and b. There are four kinds of bigrams: one ends with a, two with b, and one with the
    end. The discount is a half, and the shorter history shares out the discounted mass.
    """
    corpus = Corpus(((0, 1), (0, 1), (1,)), 2)
    a, b, end = ((count - 0.5) / 4 + 1.5 / 4 / 3 for count in (1, 2, 1))
    begun = [(2 - 0.5 + 1 * a) / 3, (1 - 0.5 + 1 * b) / 3, 1 * end / 3]
    behind_a = [0.5 * a / 2, (2 - 0.5 + 0.5 * b) / 2, 0.5 * end / 2]
    model = corpus.model(2)
    found = answers(model, corpus, walked(model, corpus, [(), (0,)])).exp()
    assert_close(found, torch.tensor([begun, behind_a], dtype=torch.float64))


@pytest.mark.parametrize("corpus", SMALL)
@pytest.mark.parametrize("order", ORDERS)
def test_every_word_after_every_history(corpus: Corpus, order: int) -> None:
    """Some histories are not seen, and some are longer than the model's order."""
    check(corpus, order, all_sequences(corpus, order + 1 if corpus.words < 3 else 4))


@pytest.mark.parametrize("order", ORDERS)
def test_counts_that_tell_the_discounts(order: int) -> None:
    discounts = Slow(LARGE, order).discounts
    assert all(each != (0.5, 0.5, 0.5) and min(each) > 0 for each in discounts.values())
    check(LARGE, order, some_sequences(LARGE, 40))


def test_single_precision_is_enough() -> None:
    double, single = LARGE.model(3), NgramLookup()
    single.learn(LARGE.ngrams(3))
    history_E = walked(double, LARGE, some_sequences(LARGE, 40))
    assert torch.equal(walked(single, LARGE, some_sequences(LARGE, 40)), history_E)
    found = answers(single, LARGE, history_E)
    assert found.dtype == torch.float32
    assert_close(found.double(), answers(double, LARGE, history_E), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("order", ORDERS)
def test_nothing_is_followed_by_a_begin(order: int) -> None:
    model = LARGE.model(order)
    history_E = walked(model, LARGE, some_sequences(LARGE, 40))
    log_prob_E, _ = model(history_E, torch.full_like(history_E, LARGE.number(BEGIN)))
    assert log_prob_E.eq(-torch.inf).all()


# ------------------------------------------------------------------ states


@pytest.mark.parametrize("corpus", SMALL)
@pytest.mark.parametrize("order", ORDERS)
def test_no_more_is_remembered_than_was_seen_before_something(corpus: Corpus, order: int) -> None:
    """Two sequences have the same state exactly if their longest suffix that something follows is the same."""
    model, slow = corpus.model(order), Slow(corpus, order)
    sequences = all_sequences(corpus, 4)
    ends = []
    for words in sequences:
        kept = ((BEGIN, *words)[i:] for i in range(max(len(words) + 2 - order, 0), len(words) + 2))
        ends.append(next(end for end in kept if end in slow.followers))
    histories = walked(model, corpus, sequences).tolist()
    assert len({*zip(histories, ends, strict=True)}) == len({*histories}) == len({*ends})
    assert {history for history, end in zip(histories, ends, strict=True) if not end} <= {0}
    assert max(map(len, ends)) == min(order - 1, max(map(len, slow.followers)))


@pytest.mark.parametrize("order", ORDERS)
def test_behind_an_end_nothing_is_remembered(order: int) -> None:
    model = LARGE.model(order)
    sequences = [(*words, END) for words in some_sequences(LARGE, 5)]
    assert not walked(model, LARGE, sequences).any()
    check(LARGE, order, [*sequences, *((*words, 3) for words in sequences)])


# ------------------------------------------------------------------ many questions, and other models


@pytest.mark.parametrize("order", ORDERS)
def test_together_as_one_by_one(order: int) -> None:
    model = LARGE.model(order)
    history_E = walked(model, LARGE, some_sequences(LARGE, 40))
    word_E = torch.randint(LARGE.words + 1, history_E.shape, generator=torch.Generator().manual_seed(0))
    log_prob_E, after_E = model(history_E, word_E)
    each = [model(history[None], word[None]) for history, word in zip(history_E, word_E, strict=True)]
    assert torch.equal(log_prob_E, torch.cat([log_prob for log_prob, _ in each]))
    assert torch.equal(after_E, torch.cat([after for _, after in each]))
    assert len({*log_prob_E.tolist()}) > 10


def test_nothing_is_asked() -> None:
    nothing = torch.zeros(0, dtype=torch.long)
    log_prob_E, after_E = LARGE.model(2)(nothing, nothing)
    assert (log_prob_E.shape, log_prob_E.dtype) == ((0,), torch.float64)
    assert (after_E.shape, after_E.dtype) == ((0,), torch.long)


def test_what_was_saved_answers_the_same(tmp_path: Path) -> None:
    model, other = NgramLookup(), NgramLookup()
    model.learn(LARGE.ngrams(3))
    assert not any(parameter.requires_grad for parameter in model.parameters())
    save_weights(model, tmp_path / "model.safetensors")
    assert (len(model), len(other)) == (1 + len(Slow(LARGE, 3).occurring), 0)
    load_weights(other, tmp_path / "model.safetensors")
    assert (other.begun, other.end, len(other)) == (model.begun, LARGE.number(END), len(model))
    history_E = walked(model, LARGE, some_sequences(LARGE, 40))
    assert torch.equal(walked(other, LARGE, some_sequences(LARGE, 40)), history_E)
    assert torch.equal(answers(other, LARGE, history_E), answers(model, LARGE, history_E))


def test_what_is_learned_again_is_learned_anew() -> None:
    model, fresh = LARGE.model(3), SMALL[3].model(2)
    model.learn(SMALL[3].ngrams(2))
    for name, parameter in fresh.named_parameters():
        assert torch.equal(getattr(model, name), parameter)


@given(
    st.lists(st.lists(st.integers(0, 4), max_size=7), min_size=1, max_size=20), st.integers(1, 4), st.integers(1, 30)
)
def test_parts_of_a_text_are_counted_like_the_whole(rows: list[list[int]], order: int, tokens: int) -> None:
    text = Sequences(*_flat(rows), 3)
    parts = list(text.divided(tokens))
    assert [len(part.offsets) - 1 for part in parts if len(part.offsets) < 2] == []
    whole, found = count(text, 5, order), merged([count(part, 5, order) for part in parts], 5)
    for name in ("keys", "suffixes", "counts", "first"):
        for one, other in zip(getattr(whole, name), getattr(found, name), strict=True):
            assert one.dtype == other.dtype
            assert one.tolist() == other.tolist()


def _flat(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """The rows in the form of prepared data: each id is 3 higher, and an id without meaning follows each row."""
    flat = [word + 3 for row in rows for word in (*row, -1)]
    return np.array(flat, np.uint16), np.cumsum([0, *(len(row) + 1 for row in rows)])
