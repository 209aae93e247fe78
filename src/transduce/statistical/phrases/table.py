"""The phrase table: the translations of each source phrase, with their scores.

X extracted phrase pairs, U different ones, O kept ones (options), N source phrases, F scores of an option.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from transduce.statistical.links import Links
from transduce.statistical.phrases.discounting import Discount, probabilities
from transduce.statistical.phrases.extraction import Corpus, Extracted, extract
from transduce.statistical.phrases.reordering import Orientation, orientations
from transduce.statistical.phrases.trie import Trie

Ids = NDArray[np.int64]
Numbers = NDArray[np.float64]

SCORES = ("translation", "reverse-translation", "lexical", "reverse-lexical")
NULL = -1  # the word that unlinked words come from
RARE = 1e-7  # the smallest lexical probability


@dataclass(frozen=True)
class PhraseTable:
    """The options of source phrases.

    ``sources`` is the trie of source phrases. The options of phrase n are those from ``first[n]`` to ``first[n + 1]``,
    best first. ``targets`` [O, longest] are their words, padded with 0, and ``lengths`` [O] their number. ``scores``
    [O, 4] are logarithms in the order of ``SCORES``. ``orientation`` [O, 6] are log-probabilities of monotone, swap and
    discontinuous: first three with respect to the phrase before it, then three with respect to the phrase after it.
    """

    sources: Trie
    first: Ids
    targets: Ids
    lengths: Ids
    scores: Numbers
    orientation: Numbers


def estimate(
    source: Corpus,
    target: Corpus,
    links: Links,
    longest: int,
    limit: int,
    discount: Discount,
    orientation: Literal["phrase", "word"],
) -> PhraseTable:
    """Extracts all phrase pairs, and keeps for each source phrase the ``limit`` ones with the largest sum of scores."""
    found = extract(source, target, links, longest)
    sources, source_PN = Trie.of(source.ids, source.left, source.words, longest)
    targets, target_QN = Trie.of(target.ids, target.left, target.words, longest)
    source_X = source_PN[found.source_X, found.source_length_X - 1]
    target_X = target_QN[found.target_X, found.target_length_X - 1]
    key_U, pair_X, count_U = np.unique(source_X * len(targets.keys) + target_X, return_inverse=True, return_counts=True)
    source_U, target_U = np.divmod(key_U, max(1, len(targets.keys)))
    scores = np.stack(
        [
            np.log(probabilities(count_U, source_U, target_U, discount)),
            np.log(probabilities(count_U, target_U, source_U, discount)),
            *lexical_weights(source, target, links, found, pair_X, len(key_U)),
        ],
        1,
    )
    kept = _best(source_U, scores.sum(1), limit)
    orientation_O = _smoothed(orientations(source, target, links, found, orientation), pair_X, len(key_U))[kept]
    kept_sources, number_N = sources.only(source_U[kept])
    words, lengths = targets.spelled()
    first = np.searchsorted(number_N[source_U[kept]], np.arange(len(kept_sources.keys) + 1))
    return PhraseTable(kept_sources, first, words[target_U[kept]], lengths[target_U[kept]], scores[kept], orientation_O)


def lexical_weights(
    source: Corpus, target: Corpus, links: Links, found: Extracted, pair_X: Ids, pairs: int
) -> tuple[Numbers, Numbers]:
    """[U] each: log p_w(target | source) and log p_w(source | target) of the different pairs (Koehn et al. 2003,
    section 3.3). ``pair_X`` is the number of each extracted pair among the U = ``pairs`` different ones.

    p_w is the product over the words of the one side of the mean over their links of w(word | linked word). A word
    without a link has w(word | nothing). w are relative frequencies of the links. A pair with several alignments has
    the largest of their weights.
    """
    source_L = source.offsets[links.pair_L] + links.source_L
    target_L = target.offsets[links.pair_L] + links.target_L
    forward_Q = _word_weights(source.ids, source_L, target.ids, target_L)
    backward_P = _word_weights(target.ids, target_L, source.ids, source_L)
    weights = []
    for weight, start_X, end_X in (
        (forward_Q, found.target_X, found.target_end_X),
        (backward_P, found.source_X, found.source_end_X),
    ):
        sums = np.concatenate([[0.0], np.cumsum(weight)])
        best_U = np.full(pairs, -np.inf)
        np.maximum.at(best_U, pair_X, sums[end_X] - sums[start_X])
        weights.append(best_U)
    return weights[0], weights[1]


# --------------------------------------------------------------------- details


def _word_weights(given_P: Ids, given_L: Ids, word_Q: Ids, word_L: Ids) -> Numbers:
    """[Q]: the logarithm of the mean over the links of each word of w(word | linked word)."""
    free_Q = np.ones(len(word_Q), bool)
    free_Q[word_L] = False
    given = np.concatenate([given_P[given_L], np.full(int(free_Q.sum()), NULL)])
    place = np.concatenate([word_L, np.flatnonzero(free_Q)])
    width = int(word_Q.max(initial=0)) + 1
    keys, number, count = np.unique((given + 1) * width + word_Q[place], return_inverse=True, return_counts=True)
    probability = count / np.bincount(keys // width, count)[keys // width]
    links_Q = np.bincount(place, minlength=len(word_Q))
    mean_Q = np.bincount(place, probability[number], len(word_Q)) / np.maximum(links_Q, 1)
    return np.log(np.maximum(mean_Q, RARE))


def _best(source_U: Ids, score_U: Numbers, limit: int) -> Ids:
    """The numbers of the ``limit`` best pairs of each source phrase, by source phrase, best first."""
    order = np.lexsort((-score_U, source_U))
    ordered = source_U[order]
    rank = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    return order[rank < limit]


def _smoothed(orientation_X: Orientation, pair_X: Ids, pairs: int) -> Numbers:
    """[U, 6]: log((count + 0.5) / (total + 1.5)) of the three orientations to the phrase before, then after."""
    columns = []
    for side_X in orientation_X:
        count_U3 = np.bincount(pair_X * 3 + side_X, minlength=3 * pairs).reshape(pairs, 3) + 0.5
        columns.append(np.log(count_U3 / count_U3.sum(1, keepdims=True)))
    return np.concatenate(columns, 1)
