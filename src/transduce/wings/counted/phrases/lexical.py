"""Lexical weights: how well the words of a phrase pair translate each other (Koehn et al. 2003, section 3.3).

P and Q places of the source and the target corpus, L links, X extracted phrase pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transduce.wings.alignment.links import Links
from transduce.wings.counted.phrases.extraction import Corpus, Extracted

Ids = NDArray[np.int64]
Numbers = NDArray[np.float64]

NULL = -1  # the word that unlinked words come from
RARE = 1e-7  # the smallest lexical probability


@dataclass(frozen=True)
class LexicalWeights:
    """The sum of the words' log-weights before each place: ``forward`` [Q + 1] of the target, ``backward`` [P + 1] of
    the source.

    p_w(target | source) is a product over the target words. Each factor is the mean of w(word | linked word) over the
    word's links, or w(word | nothing) for a word without a link. w is the relative frequency of the corpus' links. A
    factor is at least ``RARE``.
    """

    forward: Numbers
    backward: Numbers

    def of(self, found: Extracted) -> tuple[Numbers, Numbers]:
        """[X] each: log p_w(target | source) and log p_w(source | target) of the extracted pairs."""
        return (
            self.forward[found.target_end_X] - self.forward[found.target_X],
            self.backward[found.source_end_X] - self.backward[found.source_X],
        )


def lexical_weights(source: Corpus, target: Corpus, links: Links) -> LexicalWeights:
    source_L = source.offsets[links.pair_L] + links.source_L
    target_L = target.offsets[links.pair_L] + links.target_L
    weights = (
        _word_weights(source.ids, source_L, target.ids, target_L),
        _word_weights(target.ids, target_L, source.ids, source_L),
    )
    return LexicalWeights(*(np.concatenate([[0.0], np.cumsum(weight)]) for weight in weights))


def _word_weights(given_P: Ids, given_L: Ids, word_Q: Ids, word_L: Ids) -> Numbers:
    """[Q]: for each word, the logarithm of the mean of w(word | linked word) over its links (``LexicalWeights``)."""
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
