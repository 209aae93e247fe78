"""Entropy pruning of n-grams (Stolcke 1998). L n-grams; h a history, h' its suffix, w the next word."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch

from transduce.core.errors import UserError
from transduce.wings.counted.ngram_lookup import NgramLookup
from transduce.wings.counted.ngrams import NGrams, Numbers, with_parents


def prune(ngrams: NGrams, threshold: float) -> NGrams:
    """A model without its least useful n-grams. It removes an n-gram of two or more words if the model's perplexity
    without it rises by a share of less than ``threshold``, such as 1e-8, and if no kept n-gram begins with it. 0
    removes nothing. Each n-gram is judged as if all others stayed.

    The back-off weights of the result make all words after each history sum to 1 again. Raises UserError for a
    threshold below 0.
    """
    check_threshold(threshold)
    if not threshold:
        return ngrams
    with np.errstate(all="ignore"):  # an impossible word gives infinite numbers, and is kept
        keep = ~(np.expm1(_entropy_gains(ngrams)) < threshold)
    keep[: 1 + ngrams.words] = True
    return normalised(ngrams.select(with_parents(keep, ngrams.keys, ngrams.words)))


def check_threshold(threshold: float) -> None:
    """Raises UserError unless the threshold is a number of 0 or more."""
    if not 0 <= threshold < np.inf:
        raise UserError(f"prune = {threshold}: 0, which keeps all n-grams, or a small number such as 1e-8 was expected")


def normalised(ngrams: NGrams) -> NGrams:
    """The n-grams with back-off weights that make the probabilities of all words after each history sum to 1.

    If the words that were seen after h have all the probability of h', the weight of h has no effect and stays.
    """
    model, back_off, bounds = _queries(ngrams), ngrams.back_off.copy(), ngrams.bounds
    for first, stop in pairwise(bounds[1:]):
        histories = slice(bounds[bounds.index(first) - 1], first)
        parent = ngrams.keys[first - 1 : stop - 1] // ngrams.words
        lower = _after_suffix(model, ngrams, first, stop)
        own_left, lower_left = (
            1 - np.bincount(parent, numbers, len(ngrams))[histories]
            for numbers in (ngrams.probability[first:stop], lower)
        )
        followed = np.bincount(parent, minlength=len(ngrams))[histories] > 0
        usable = followed & (lower_left > 1e-12)
        weight = np.where(usable, own_left.clip(min=0) / np.where(usable, lower_left, 1), back_off[histories])
        back_off[histories] = np.where(followed, weight, 1.0)
        with np.errstate(divide="ignore"):
            model.back_off.data = torch.from_numpy(np.log(back_off))
    return NGrams.of(ngrams.words, ngrams.keys, ngrams.suffix, ngrams.probability, back_off)


def _entropy_gains(ngrams: NGrams) -> Numbers:
    """[L]: the relative entropy, in nats, between the model and the model without each n-gram (eq. 5 and 6)."""
    L, parent = len(ngrams), ngrams.parent
    own = ngrams.probability
    lower = np.concatenate([own[: 1 + ngrams.words], _after_suffix(_queries(ngrams), ngrams, 1 + ngrams.words, L)])
    own_left, lower_left = (1 - np.bincount(parent[1:], numbers[1:], L) for numbers in (own, lower))
    own_left = own_left.clip(min=0)
    weight = np.log((own_left[parent] + own) / (lower_left[parent] + lower))  # of h without this n-gram
    old_weight = np.log(ngrams.back_off)[parent]
    others = np.where(own_left[parent] > 0, own_left[parent] * (weight - old_weight), 0.0)
    history = np.exp(_log_totals(ngrams))[parent]
    gains: Numbers = -history * (own * (np.log(lower) + weight - np.log(own)) + others)
    return gains


def _log_totals(ngrams: NGrams) -> Numbers:
    """[L]: the log-probability of all the words of each n-gram. A begin has the probability of an end, as there are
    equally many.
    """
    step, parent, total = np.log(ngrams.probability), ngrams.parent, np.zeros(len(ngrams))
    step[ngrams.words] = step[ngrams.words - 1]
    for first, stop in pairwise(ngrams.bounds):
        total[first:stop] = total[parent[first:stop]] + step[first:stop]
    return total


def _queries(ngrams: NGrams) -> NgramLookup:
    model = NgramLookup().double()
    model.learn(ngrams)
    return model


def _after_suffix(model: NgramLookup, ngrams: NGrams, first: int, stop: int) -> Numbers:
    """p(w | h') of the n-grams h w from ``first`` to ``stop`` (exclusive)."""
    parent, word = np.divmod(ngrams.keys[first - 1 : stop - 1], ngrams.words)
    log_prob, _ = model(torch.from_numpy(ngrams.suffix[parent]), torch.from_numpy(word))
    lower: Numbers = log_prob.exp().numpy()
    return lower
