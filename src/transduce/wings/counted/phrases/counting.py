"""Counts of phrase pairs, in parts of a word-aligned corpus.

X extracted phrase pairs, U different ones, P words of the longest phrase, L links.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from transduce.compute.cluster import AnyWorkers
from transduce.wings.alignment.links import Links
from transduce.wings.counted.phrases.extraction import Corpus, Extracted, extract
from transduce.wings.counted.phrases.lexical import LexicalWeights, lexical_weights
from transduce.wings.counted.phrases.reordering import Orientation, orientations
from transduce.wings.counted.phrases.trie import Trie

Ids = NDArray[np.int64]
Numbers = NDArray[np.float64]
Job = tuple[Corpus, Corpus, Links, LexicalWeights, int, Orientation]

PART = 2**16  # words of the source that are counted at a time: about 600,000 phrase pairs


@dataclass(frozen=True)
class PhrasePairs:
    """U different phrase pairs, sorted by source phrase and then by target phrase.

    ``source_U`` and ``target_U`` are the phrases' numbers in the tries. ``count_U`` is how often a pair occurs, and
    ``orientation_U6`` how often as monotone, swap and discontinuous: first to the phrase before it, then to the phrase
    after it. ``lexical_U2`` are the largest lexical weights of its occurrences in both directions. ``aligned_U`` is the
    largest sum of the two, and ``links_UP`` are the links of the first occurrence with this sum (``inner_links``).
    """

    sources: Trie
    targets: Trie
    source_U: Ids
    target_U: Ids
    count_U: Ids
    orientation_U6: Ids
    lexical_U2: Numbers
    aligned_U: Numbers
    links_UP: NDArray[np.int8]


def count(
    source: Corpus, target: Corpus, links: Links, longest: int, model: Orientation, workers: AnyWorkers | None = None
) -> PhrasePairs:
    """The phrase pairs of at most ``longest`` words of a corpus. ``model`` is the ``model`` of ``orientations``.

    The corpus is counted in parts of whole sentences, by the ``workers`` if there are some. The result does not depend
    on the parts: counts are integers, and of all other numbers the largest is kept.
    """
    weights = lexical_weights(source, target, links)
    jobs = ((*part, longest, model) for part in _divided(source, target, links, weights))
    return added(list(map(_count, jobs) if workers is None else workers(_count_in_worker, jobs)))


def added(parts: Sequence[PhrasePairs]) -> PhrasePairs:
    """The phrase pairs of all parts, which follow each other in the corpus."""
    sources, source_numbers = Trie.merged([part.sources for part in parts])
    targets, target_numbers = Trie.merged([part.targets for part in parts])
    key_K = np.concatenate(
        [
            forth[part.source_U] * len(targets.keys) + back[part.target_U]
            for part, forth, back in zip(parts, source_numbers, target_numbers, strict=True)
        ]
    )
    count_K, orientation_K6, lexical_K2, aligned_K, links_KP = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("count_U", "orientation_U6", "lexical_U2", "aligned_U", "links_UP")
    )
    key_U, pair_K = np.unique(key_K, return_inverse=True)
    source_U, target_U = np.divmod(key_U, max(1, len(targets.keys)))
    best_U = _first_best(pair_K, aligned_K, len(key_U))
    return PhrasePairs(
        sources=sources,
        targets=targets,
        source_U=source_U,
        target_U=target_U,
        count_U=_summed(pair_K, count_K, len(key_U)),
        orientation_U6=np.stack([_summed(pair_K, column_K, len(key_U)) for column_K in orientation_K6.T], 1),
        lexical_U2=np.stack([_largest(weight_K, pair_K, len(key_U)) for weight_K in lexical_K2.T], 1),
        aligned_U=aligned_K[best_U],
        links_UP=links_KP[best_U],
    )


def inner_links(
    source: Corpus, target: Corpus, links: Links, found: Extracted, chosen_U: Ids, longest: int
) -> NDArray[np.int8]:
    """[U, longest]: the source word of each target word of the extracted pairs with the numbers ``chosen_U``, counted
    from the pair's first; -1 for none. If a word has several links, the first counts.
    """
    first_Q = np.full(len(target.ids) + longest, -1, np.int64)
    target_L = (target.offsets[links.pair_L] + links.target_L)[::-1]
    first_Q[target_L] = (source.offsets[links.pair_L] + links.source_L)[::-1]
    place_UP = found.target_X[chosen_U, None] + np.arange(longest)
    inside_UP = (place_UP < found.target_end_X[chosen_U, None]) & (first_Q[place_UP] >= 0)
    return np.where(inside_UP, first_Q[place_UP] - found.source_X[chosen_U, None], -1).astype(np.int8)


# --------------------------------------------------------------------- details


def _divided(
    source: Corpus, target: Corpus, links: Links, weights: LexicalWeights
) -> Iterator[tuple[Corpus, Corpus, Links, LexicalWeights]]:
    """Yields the corpus in order, in parts of about ``PART`` source words. There is at least one part."""
    N = len(source.offsets) - 1
    bounds = np.searchsorted(source.offsets, np.arange(PART, source.offsets[-1], PART))
    for first, last in pairwise(np.unique([0, *bounds, N]) if N else [0, 0]):
        low, high = np.searchsorted(links.pair_L, [first, last])
        columns = (links.pair_L[low:high] - first, links.source_L[low:high], links.target_L[low:high])
        sides = [side.part(first, last) for side in (source, target)]
        spans = [slice(side.offsets[first], side.offsets[last] + 1) for side in (source, target)]
        of_part = LexicalWeights(weights.forward[spans[1]], weights.backward[spans[0]])
        yield sides[0], sides[1], Links(int(last - first), *columns), of_part


def _count_in_worker(_: None, job: Job) -> PhrasePairs:
    return _count(job)


def _count(job: Job) -> PhrasePairs:
    source, target, links, weights, longest, model = job
    found = extract(source, target, links, longest)
    sources, source_PN = Trie.of(source.ids, source.left, source.words, longest)
    targets, target_QN = Trie.of(target.ids, target.left, target.words, longest)
    source_X = source_PN[found.source_X, found.source_length_X - 1]
    target_X = target_QN[found.target_X, found.target_length_X - 1]
    key_U, pair_X, count_U = np.unique(source_X * len(targets.keys) + target_X, return_inverse=True, return_counts=True)
    source_U, target_U = np.divmod(key_U, max(1, len(targets.keys)))
    (sources, source_N), (targets, target_N) = sources.only(source_U), targets.only(target_U)
    lexical_X = weights.of(found)
    sides = orientations(source, target, links, found, model)
    in_order_X = np.lexsort((found.target_X, found.source_X))
    aligned_X = lexical_X[0] + lexical_X[1]
    best_U = in_order_X[_first_best(pair_X[in_order_X], aligned_X[in_order_X], len(key_U))]
    return PhrasePairs(
        sources=sources,
        targets=targets,
        source_U=source_N[source_U],
        target_U=target_N[target_U],
        count_U=count_U,
        orientation_U6=np.concatenate(
            [np.bincount(pair_X * 3 + side_X, minlength=3 * len(key_U)).reshape(-1, 3) for side_X in sides], 1
        ),
        lexical_U2=np.stack([_largest(weight_X, pair_X, len(key_U)) for weight_X in lexical_X], 1),
        aligned_U=aligned_X[best_U],
        links_UP=inner_links(source, target, links, found, best_U, longest),
    )


def _first_best(pair_K: Ids, score_K: Numbers, pairs: int) -> Ids:
    """[U]: the first of the entries with the largest score of each pair."""
    order_K = np.lexsort((-score_K, pair_K))
    return order_K[np.searchsorted(pair_K[order_K], np.arange(pairs))]


def _summed(pair_K: Ids, count_K: Ids, pairs: int) -> Ids:
    """[U]: the sum of each pair's counts; exact below 2^53."""
    return np.bincount(pair_K, count_K, pairs).astype(np.int64)


def _largest(weight_K: Numbers, pair_K: Ids, pairs: int) -> Numbers:
    """[U]: the largest weight of each phrase pair. Occurrences of a pair with different links have different
    weights.
    """
    largest_U = np.full(pairs, -np.inf)
    np.maximum.at(largest_U, pair_K, weight_K)
    return largest_U
