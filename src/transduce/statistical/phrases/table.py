"""The phrase table: the translations of each source phrase, with their scores.

X extracted phrase pairs, U different ones, O kept ones (options), N source phrases, F scores of an option.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from transduce.links import Links
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
    """The options of source phrases. Logarithms are natural.

    ``sources`` is the trie of source phrases. Phrase n has the options from ``first[n]`` to ``first[n + 1]``
    (exclusive), best first. ``targets`` [O, longest] are their words, padded with 0, and ``lengths`` [O] their number.
    ``scores`` [O, 4] are logarithms in the order of ``SCORES``. ``orientation`` [O, 6] are log-probabilities of
    monotone, swap and discontinuous: first three for the phrase before the option, then three for the phrase after it.
    ``links`` [O, longest] are the source words, counted from the phrase's first, that the target words are linked with,
    by the most probable of the phrase pair's alignments; -1 for a word without a link.
    """

    sources: Trie
    first: Ids
    targets: Ids
    lengths: Ids
    scores: Numbers
    orientation: Numbers
    links: Ids


def estimate(
    source: Corpus,
    target: Corpus,
    links: Links,
    longest: int,
    limit: int,
    discount: Discount,
    orientation: Literal["phrase", "word"],
) -> PhraseTable:
    """The phrase table of a word-aligned corpus. Extracts all phrase pairs of at most ``longest`` words on either side.
    Keeps for each source phrase the ``limit`` pairs with the largest sum of ``SCORES``.

    ``discount`` smooths the translation probabilities (``probabilities``). ``orientation`` is the ``model`` of
    ``orientations``.
    """
    found = extract(source, target, links, longest)
    sources, source_PN = Trie.of(source.ids, source.left, source.words, longest)
    targets, target_QN = Trie.of(target.ids, target.left, target.words, longest)
    source_X = source_PN[found.source_X, found.source_length_X - 1]
    target_X = target_QN[found.target_X, found.target_length_X - 1]
    key_U, pair_X, count_U = np.unique(source_X * len(targets.keys) + target_X, return_inverse=True, return_counts=True)
    source_U, target_U = np.divmod(key_U, max(1, len(targets.keys)))
    lexical_X = lexical_weights(source, target, links, found)
    scores = np.stack(
        [
            np.log(probabilities(count_U, source_U, target_U, discount)),
            np.log(probabilities(count_U, target_U, source_U, discount)),
            *(_largest(weight_X, pair_X, len(key_U)) for weight_X in lexical_X),
        ],
        1,
    )
    kept = _best(source_U, scores.sum(1), limit)
    orientation_O = _smoothed(orientations(source, target, links, found, orientation), pair_X, len(key_U))[kept]
    kept_sources, number_N = sources.only(source_U[kept])
    words, lengths = targets.spelled()
    by_pair_X = np.lexsort((-(lexical_X[0] + lexical_X[1]), pair_X))
    aligned_X = by_pair_X[np.searchsorted(pair_X[by_pair_X], kept)]
    return PhraseTable(
        sources=kept_sources,
        first=np.searchsorted(number_N[source_U[kept]], np.arange(len(kept_sources.keys) + 1)),
        targets=words[target_U[kept]],
        lengths=lengths[target_U[kept]],
        scores=scores[kept],
        orientation=orientation_O,
        links=_inner_links(source, target, links, found, aligned_X, longest),
    )


def lexical_weights(source: Corpus, target: Corpus, links: Links, found: Extracted) -> tuple[Numbers, Numbers]:
    """[X] each: log p_w(target | source) and log p_w(source | target) of the extracted pairs (Koehn et al. 2003,
    section 3.3).

    p_w is a product over the words of one side. Each factor is the mean of w(word | linked word) over the word's links,
    or w(word | nothing) for a word without a link. w is the relative frequency of the corpus' links. A factor is at
    least ``RARE``.
    """
    source_L = source.offsets[links.pair_L] + links.source_L
    target_L = target.offsets[links.pair_L] + links.target_L
    forward_Q = _word_weights(source.ids, source_L, target.ids, target_L)
    backward_P = _word_weights(target.ids, target_L, source.ids, source_L)
    forward, backward = (np.concatenate([[0.0], np.cumsum(weight)]) for weight in (forward_Q, backward_P))
    return (
        forward[found.target_end_X] - forward[found.target_X],
        backward[found.source_end_X] - backward[found.source_X],
    )


# --------------------------------------------------------------------- details


def _word_weights(given_P: Ids, given_L: Ids, word_Q: Ids, word_L: Ids) -> Numbers:
    """[Q]: for each word, the logarithm of the mean of w(word | linked word) over its links (``lexical_weights``)."""
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


def _largest(weight_X: Numbers, pair_X: Ids, pairs: int) -> Numbers:
    """[U]: the largest weight of each phrase pair. Occurrences of a pair with different links have different
    weights.
    """
    largest_U = np.full(pairs, -np.inf)
    np.maximum.at(largest_U, pair_X, weight_X)
    return largest_U


def _inner_links(source: Corpus, target: Corpus, links: Links, found: Extracted, chosen_O: Ids, longest: int) -> Ids:
    """[O, longest]: the source word of each target word of the extracted pairs with the numbers ``chosen_O``, counted
    from the pair's first; -1 for none. If a word has several links, the first counts.
    """
    first_Q = np.full(len(target.ids) + longest, -1, np.int64)
    target_L = (target.offsets[links.pair_L] + links.target_L)[::-1]
    first_Q[target_L] = (source.offsets[links.pair_L] + links.source_L)[::-1]
    place_OP = found.target_X[chosen_O, None] + np.arange(longest)
    inside_OP = (place_OP < found.target_end_X[chosen_O, None]) & (first_Q[place_OP] >= 0)
    return np.where(inside_OP, first_Q[place_OP] - found.source_X[chosen_O, None], -1)


def _best(source_U: Ids, score_U: Numbers, limit: int) -> Ids:
    """The numbers of the ``limit`` best pairs of each source phrase, by source phrase, best first."""
    order = np.lexsort((-score_U, source_U))
    ordered = source_U[order]
    rank = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    return order[rank < limit]


def _smoothed(orientation_X: Orientation, pair_X: Ids, pairs: int) -> Numbers:
    """[U, 6]: log((count + 0.5) / (total + 1.5)) of the three orientations before, then of the three after."""
    columns = []
    for side_X in orientation_X:
        count_U3 = np.bincount(pair_X * 3 + side_X, minlength=3 * pairs).reshape(pairs, 3) + 0.5
        columns.append(np.log(count_U3 / count_U3.sum(1, keepdims=True)))
    return np.concatenate(columns, 1)
