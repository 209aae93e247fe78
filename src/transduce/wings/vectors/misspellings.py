"""Misspellings: is the right word among the nearest words of a misspelt one?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from transduce.core.errors import UserError
from transduce.data import corpora
from transduce.wings.vectors.correlation import Estimate, share
from transduce.wings.vectors.table import Vectors, normalised

AT = (1, 10)


@dataclass(frozen=True)
class MisspellingResult:
    """Counts of pairs of a misspelling and its right word.

    ``first`` counts the pairs whose right word is the nearest word of the misspelling. ``ten`` counts the pairs whose
    right word is among the ten nearest. ``reachable`` counts the pairs whose right word has a vector. ``covered``
    counts the reachable pairs whose misspelling has a vector, too, of its own or from subwords. ``chance`` is the
    probability that ten random words include the right one.
    """

    pairs: int
    reachable: int
    covered: int
    first: int
    ten: int
    chance: float

    @property
    def accuracy(self) -> tuple[Estimate, Estimate]:
        """The shares of ``first`` and of ``ten`` among the reachable pairs. A pair that is not covered is wrong."""
        return share(self.first, self.reachable), share(self.ten, self.reachable)


def read_misspellings(path: str | Path) -> list[tuple[str, str]]:
    """The pairs of a file: a misspelling, a tab and the right word on each line. Raises UserError, with the line, for
    another form, and for a file without pairs.
    """
    found = []
    for number, line in enumerate(corpora.text_lines(Path(path)), 1):
        fields = line.split("\t")
        if len(fields) != 2:
            raise UserError(f"{path}:{number}: a misspelling, a tab and the right word were expected")
        found.append((fields[0], fields[1]))
    if not found:
        raise UserError(f"{path} has no pairs: a misspelling, a tab and the right word on each line were expected")
    return found


def misspellings(vectors: Vectors, pairs: Sequence[tuple[str, str]]) -> MisspellingResult:
    """Counts how often the right word is among the nearest words of its misspelling, by cosine.

    The misspelling itself is no answer. Pairs that differ only in case are left out. Words are looked up exactly, then
    in any case.
    """
    pairs = [(wrong, right) for wrong, right in pairs if wrong.upper() != right.upper()]
    reachable = [(wrong, place) for wrong, right in pairs if (place := vectors.place(right)) is not None]
    covered = [(wrong, vector, place) for wrong, place in reachable if (vector := vectors.vector(wrong)) is not None]
    counts = dict.fromkeys(AT, 0)
    for wrong, vector_D, place in covered:
        cosine_V = vectors.unit_VD @ normalised(vector_D)
        if (own := vectors.place(wrong)) is not None:
            cosine_V[own] = -np.inf
        better = int((cosine_V > cosine_V[place]).sum())
        for k in AT:
            counts[k] += better < k
    chance = min(1.0, AT[-1] / max(1, len(vectors)))
    return MisspellingResult(len(pairs), len(reachable), len(covered), counts[AT[0]], counts[AT[1]], chance)


def random_vectors(vectors: Vectors, seed: int = 1) -> Vectors:
    """Vectors with the same words and width, drawn from a normal distribution, as a random baseline of any measure."""
    drawn = np.random.default_rng(seed).standard_normal(vectors.matrix_VD.shape)
    return vectors.with_matrix(drawn.astype(np.float32))
