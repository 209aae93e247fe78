"""The nearest sentences of a sentence by its vector, and how often the nearest one is its paraphrase.

Q queries, N sentences, D features.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from transduce.core.errors import UserError
from transduce.wings.vectors.correlation import Estimate, share
from transduce.wings.vectors.table import Floats, normalised

AT_ONCE = 512  # queries
PARAPHRASE = 4.5  # relatedness from here on, on the scale from 1 to 5


class NearSentence(NamedTuple):
    """A sentence, its place among the given ones (from 0), and its cosine with the query."""

    text: str
    place: int
    cosine: float


def nearest_sentences(
    vectors_ND: Floats, texts: Sequence[str], queries_QD: Floats, k: int = 5
) -> list[list[NearSentence]]:
    """For each query, the ``k`` sentences with the largest cosine, the nearest first. Equal cosines keep the order of
    ``texts``. A vector of zeros has the cosine 0. Raises UserError if there are no sentences or ``k`` < 1, and for
    queries of another width.
    """
    if not len(vectors_ND) or k < 1:
        raise UserError(f"{len(vectors_ND)} sentences and k = {k}: at least one of each was expected")
    if vectors_ND.shape[1] != queries_QD.shape[1]:
        raise UserError(
            f"the queries have vectors of {queries_QD.shape[1]} numbers, the sentences of {vectors_ND.shape[1]}"
        )
    units_ND, found = normalised(vectors_ND.astype(np.float64)), []
    for first in range(0, len(queries_QD), AT_ONCE):
        cosine_QN = normalised(queries_QD[first : first + AT_ONCE].astype(np.float64)) @ units_ND.T
        for cosine_N, best in zip(cosine_QN, np.argsort(-cosine_QN, axis=1, kind="stable")[:, :k], strict=True):
            found.append([NearSentence(texts[place], int(place), float(cosine_N[place])) for place in best])
    return found


def retrieval(vectors_ND: Floats, texts: Sequence[str], paraphrases: Sequence[tuple[str, str]]) -> Estimate:
    """The share of sentences whose nearest other sentence is a paraphrase of it. NaN without paraphrases.

    ``texts`` are the sentences to search among, each once, with their ``vectors_ND``. Each sentence of a pair in
    ``paraphrases`` is one query, however often it occurs; all its partners are right answers. The interval counts
    queries as independent.
    """
    partners: defaultdict[str, set[str]] = defaultdict(set)
    for one, other in paraphrases:
        if one != other:
            partners[one].add(other)
            partners[other].add(one)
    places = {text: place for place, text in enumerate(texts)}
    queries = np.array([places[text] for text in partners], dtype=np.int64)
    found = nearest_sentences(vectors_ND, texts, vectors_ND[queries], 2) if len(queries) else []
    right = 0
    for text, place, near in zip(partners, queries, found, strict=True):
        others = [each.text for each in near if each.place != place]
        right += bool(others) and others[0] in partners[text]
    return share(right, len(queries))
