"""The nearest words of a vector, and the word that does not fit into a list."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from transduce.core.errors import UserError
from transduce.wings.vectors.table import Floats, Vectors, normalised


class Neighbour(NamedTuple):
    """A word and its cosine with the query vector."""

    word: str
    cosine: float


def neighbours(
    vectors: Vectors, plus: Sequence[str], minus: Sequence[str] = (), k: int = 10, case: bool | None = None
) -> list[Neighbour]:
    """The ``k`` words with the largest cosine with a query vector, the nearest first. The query vector is the sum of
    the unit vectors of ``plus`` minus the sum of the unit vectors of ``minus``.

    The given words themselves are left out. A single word in ``plus`` gives its neighbours. With plus ["king", "woman"]
    and minus ["man"], the query is the analogy man : king = woman : ?. ``case`` is ``ignore_case`` of
    ``Vectors.place``. Raises UserError for a word without a vector, if ``plus`` is empty, or if ``k`` < 1.
    """
    if not plus or k < 1:
        raise UserError(f"{len(plus)} words to look for and k = {k}: at least one of each was expected")
    given = [*plus, *minus]
    signs = np.array([1.0] * len(plus) + [-1.0] * len(minus))
    query_D = signs @ normalised(vectors.known(given))
    return nearest(vectors, query_D, k, vectors.places(given, case))


def nearest(vectors: Vectors, query_D: Floats, k: int, without: Collection[int] = ()) -> list[Neighbour]:
    """The ``k`` words with the largest cosine with ``query_D``, the nearest first. The rows ``without`` are left
    out.
    """
    cosine_V = vectors.unit_VD @ normalised(query_D)
    cosine_V[list(without)] = -np.inf
    k = min(k, len(vectors) - len(set(without)))
    best = np.argsort(-cosine_V, kind="stable")[: max(0, k)]
    return [Neighbour(vectors.words[place], float(cosine_V[place])) for place in best]


def odd_one_out(vectors: Vectors, words: Sequence[str]) -> list[Neighbour]:
    """The words, each with its cosine with the mean of all their unit vectors, the lowest cosine first. So the first
    word is the one that does not fit (gensim's ``doesnt_match``).

    Raises UserError for fewer than three words, and for a word without a vector.
    """
    if len(words) < 3:
        raise UserError(f"{len(words)} words: at least three were expected, of which one does not fit")
    unit_ND = normalised(vectors.known(words))
    cosine_N = unit_ND @ normalised(unit_ND.mean(0))
    order = np.argsort(cosine_N, kind="stable")
    return [Neighbour(words[place], float(cosine_N[place])) for place in order]
