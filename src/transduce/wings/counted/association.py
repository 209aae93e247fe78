"""Lexical association: which target words go with which source words, counted from pairs without alignments.

P pairs of a source and a target token of the same sentence, U different pairs, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from transduce.core.stages import counted
from transduce.core.types import SPECIALS
from transduce.data.pairs import Pairs

Ids = NDArray[np.int64]
Weights = NDArray[np.float64]

MOST = 50_000_000  # pairs of tokens to count, some 2 GB; of a larger corpus, every n-th sentence


@dataclass(frozen=True)
class Association:
    """t(target | source) for the U pairs of tokens that occur together: [U] each, sorted by source, then by target."""

    source: Ids
    target: Ids
    probability: Weights

    def best(self, count: int, vocabulary: int, filler: int) -> NDArray[np.int32]:
        """[V, count]: the most probable targets of each source token, best first, padded with ``filler``.

        V is ``vocabulary``, the size of the source vocabulary.
        """
        order = np.lexsort((self.target, -self.probability, self.source))
        source = self.source[order]
        rank = np.arange(len(source)) - np.searchsorted(source, source)
        kept = rank < count
        found = np.full((vocabulary, count), filler, np.int32)
        found[source[kept], rank[kept]] = self.target[order][kept]
        return found


def associate(pairs: Pairs, iterations: int = 5) -> Association:
    """IBM model 1 (Brown et al. 1993, section 4.1) by expectation maximisation, without an empty word:

    c(t | s) = sum over sentences and positions of t(t | s) / sum over the sentence's s' of t(t | s'). t(t | s) is c(t |
    s) divided by its sum over the targets t. EOS counts as a token. A corpus with more than ``MOST`` pairs of tokens is
    thinned out evenly.
    """
    key, group = _tokens_together(pairs)
    unique, place = np.unique(key, return_inverse=True)
    width = int(pairs.target.ids.max()) + 1
    source, target = unique // width, unique % width
    probability = np.ones(len(unique))
    for _ in counted(range(iterations), "passes"):
        share = probability[place]
        share /= np.bincount(group, share)[group]
        count = np.bincount(place, share, len(unique))
        probability = count / np.bincount(source, count)[source]
    return Association(source, target, probability)


def _tokens_together(pairs: Pairs) -> tuple[Ids, Ids]:
    """For every source and target token of the same sentence, [P]: a number for the two tokens, and one for the
    target's position.

    The first is source * width + target, where width is the largest target id + 1. Positions are numbered over all
    sentences.
    """
    width = int(pairs.target.ids.max()) + 1
    sizes = pairs.source_lengths.astype(np.int64) * pairs.target_lengths
    rows = np.arange(0, len(pairs), -(-int(sizes.sum()) // MOST))
    keys, groups, positions = [], [], 0
    for row in rows:
        source, target = (side.ids[side.offsets[row] : side.offsets[row + 1]] for side in (pairs.source, pairs.target))
        keys.append((source.astype(np.int64)[None] * width + target[:, None]).ravel())
        groups.append(np.repeat(np.arange(positions, positions + len(target)), len(source)))
        positions += len(target)
    return np.concatenate(keys), np.concatenate(groups)


def frequent(pairs: Pairs, count: int) -> Ids:
    """The ids of at most ``count`` target tokens, the most frequent first. Special tokens are left out."""
    first = len(SPECIALS)
    counts = np.bincount(pairs.target.ids)[first:]
    return first + counts.argsort(kind="stable")[::-1][:count].astype(np.int64)
