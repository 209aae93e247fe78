"""Sentence vectors from word vectors: the average, and the weighted average without the common component (SIF).

N sentences, D features.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from transduce.core.errors import UserError
from transduce.wings.vectors.corpus import split
from transduce.wings.vectors.table import Floats, Vectors

SMOOTHING = 1e-3  # a of Arora et al. 2017


def average(vectors: Vectors, sentences: Sequence[str], weights: Floats | None = None) -> Floats:
    """The mean vector [N, D] of the words of each sentence. If ``weights`` [V] are given, it is the weighted sum of the
    vectors, divided by the number of words.

    ``corpus.split`` finds the words, which are looked up exactly, then in any case. Words without a vector of their own
    are left out, even if the table has subwords. The vector of a sentence without known words is zero.
    """
    places = [vectors.places(split(sentence)) for sentence in sentences]
    counts_N = np.array([len(row) for row in places], dtype=np.int64)
    flat_M = np.array([place for row in places for place in row], dtype=np.int64)
    rows_MD = vectors.matrix_VD[flat_M].astype(np.float64)
    if weights is not None:
        rows_MD = rows_MD * weights[flat_M, None]
    sums_ND = np.zeros((len(sentences), vectors.width))
    np.add.at(sums_ND, np.repeat(np.arange(len(sentences)), counts_N), rows_MD)
    mean_ND: Floats = (sums_ND / np.maximum(counts_N, 1)[:, None]).astype(np.float32)
    return mean_ND


@dataclass(frozen=True)
class SmoothInverseFrequency:
    """Sentence vectors of Arora et al. 2017. The weight of a word w is a / (a + p(w)). The common component is removed:
    the first right singular vector of the sentences that ``fit`` got. ``weights_V`` has the weight of each word, and
    ``common_D`` the component.
    """

    vectors: Vectors
    weights_V: Floats
    common_D: Floats

    @classmethod
    def fit(
        cls, vectors: Vectors, counts: Counter[str], sentences: Sequence[str], smoothing: float = SMOOTHING
    ) -> SmoothInverseFrequency:
        """Takes the probabilities of words from ``counts``, in any case, and the common component from ``sentences``. A
        word that was not counted has weight 1. Raises UserError if there are no counts or no sentences, or unless
        ``smoothing`` > 0.
        """
        total = sum(counts.values())
        if not total or not sentences or smoothing <= 0:
            raise UserError(
                f"{total} counted words, {len(sentences)} sentences and smoothing {smoothing}: at least one of each, "
                "and a smoothing above 0, were expected"
            )
        folded: Counter[str] = Counter()
        for word, count in counts.items():
            folded[word.upper()] += count
        share_V = np.array([folded[word.upper()] / total for word in vectors.words])
        weights_V = smoothing / (smoothing + share_V)
        _, _, component_DD = np.linalg.svd(average(vectors, sentences, weights_V), full_matrices=False)
        return cls(vectors, weights_V, component_DD[0])

    def __call__(self, sentences: Sequence[str]) -> Floats:
        """The vectors [N, D] of the sentences."""
        mean_ND = average(self.vectors, sentences, self.weights_V)
        return mean_ND - np.outer(mean_ND @ self.common_D, self.common_D).astype(mean_ND.dtype)
