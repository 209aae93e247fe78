"""The phrase table: the translations of each source phrase, with their scores.

U different phrase pairs, O kept ones (options), N source phrases, F scores of an option.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transduce.compute.cluster import AnyWorkers
from transduce.wings.alignment.links import Links
from transduce.wings.counted.phrases.counting import count
from transduce.wings.counted.phrases.discounting import Discount, probabilities
from transduce.wings.counted.phrases.extraction import Corpus
from transduce.wings.counted.phrases.reordering import Orientation
from transduce.wings.counted.phrases.trie import Trie

Ids = NDArray[np.int64]
Numbers = NDArray[np.float64]

SCORES = ("translation", "reverse-translation", "lexical", "reverse-lexical")


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
    links: NDArray[np.int8]


def estimate(
    source: Corpus,
    target: Corpus,
    links: Links,
    longest: int,
    limit: int,
    discount: Discount,
    orientation: Orientation,
    workers: AnyWorkers | None = None,
) -> PhraseTable:
    """The phrase table of a word-aligned corpus. Extracts all phrase pairs of at most ``longest`` words on either side.
    Keeps for each source phrase the ``limit`` pairs with the largest sum of ``SCORES``.

    ``discount`` smooths the translation probabilities (``probabilities``). ``orientation`` is the ``model`` of
    ``orientations``. ``workers``, if given, count the phrase pairs.
    """
    counted = count(source, target, links, longest, orientation, workers)
    scores = np.stack(
        [
            np.log(probabilities(counted.count_U, counted.source_U, counted.target_U, discount)),
            np.log(probabilities(counted.count_U, counted.target_U, counted.source_U, discount)),
            *counted.lexical_U2.T,
        ],
        1,
    )
    kept = _best(counted.source_U, scores.sum(1), limit)
    source_O, target_O = counted.source_U[kept], counted.target_U[kept]
    sources, number_N = counted.sources.only(source_O)
    words, lengths = counted.targets.spelled()
    return PhraseTable(
        sources=sources,
        first=np.searchsorted(number_N[source_O], np.arange(len(sources.keys) + 1)),
        targets=words[target_O],
        lengths=lengths[target_O],
        scores=scores[kept],
        orientation=_smoothed(counted.orientation_U6[kept]),
        links=counted.links_UP[kept],
    )


# --------------------------------------------------------------------- details


def _best(source_U: Ids, score_U: Numbers, limit: int) -> Ids:
    """The numbers of the ``limit`` best pairs of each source phrase, by source phrase, best first."""
    order = np.lexsort((-score_U, source_U))
    ordered = source_U[order]
    rank = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    return order[rank < limit]


def _smoothed(orientation_O6: Ids) -> Numbers:
    """[O, 6]: log((count + 0.5) / (total + 1.5)) of the three orientations before, then of the three after."""
    count_O23 = orientation_O6.reshape(-1, 2, 3) + 0.5
    smooth: Numbers = np.log(count_O23 / count_O23.sum(2, keepdims=True)).reshape(-1, 6)
    return smooth
