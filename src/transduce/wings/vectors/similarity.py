"""Similarity of words: how well cosines agree with the scores that people gave to pairs of words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from transduce.core.errors import UserError
from transduce.core.finite import finite_number
from transduce.data import corpora
from transduce.wings.vectors.correlation import Estimate, estimate, pearson, spearman
from transduce.wings.vectors.table import Floats, Vectors, normalised

Unknown = Literal["skip", "zero", "subwords"]
"""The treatment of words that have no vector of their own: leave their pair out, count the pair with cosine 0, or make
a vector from the word's subwords (and leave the pair out if the vectors have no subwords)."""


class ScoredPair(NamedTuple):
    """Two words, and how similar people find them; a higher score means more similar."""

    one: str
    other: str
    score: float


@dataclass(frozen=True)
class SimilarityResult:
    """The correlations of cosines with people's scores over ``used`` of ``pairs`` pairs of words. ``known`` is the
    number of pairs whose words both have a vector of their own.
    """

    name: str
    pairs: int
    known: int
    used: int
    spearman: Estimate
    pearson: Estimate

    @property
    def coverage(self) -> float:
        """The share of the pairs whose words both have a vector of their own."""
        return self.known / self.pairs


def read_pairs(path: str | Path) -> list[ScoredPair]:
    """The pairs of a file: word, word and score on each line, separated by tabs. Lines that begin with # and empty
    lines are left out. Raises UserError, with the line, for another form, and for a file without pairs.
    """
    found = []
    for number, line in enumerate(corpora.text_lines(Path(path)), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            one, other, score = line.split("\t")
            found.append(ScoredPair(one.strip(), other.strip(), finite_number(score)))
        except ValueError:
            raise UserError(
                f"{path}:{number}: {line[:60]!r}: two words and a score were expected, separated by tabs"
            ) from None
    if not found:
        raise UserError(f"{path} has no pairs: two words and a score on each line were expected, separated by tabs")
    return found


def similarity(
    vectors: Vectors,
    pairs: Sequence[ScoredPair],
    name: str = "pairs",
    unknown: Unknown = "skip",
    ignore_case: bool = True,
) -> SimilarityResult:
    """Correlates the cosine of each pair's vectors with the pair's score, by Spearman and by Pearson.

    If ``unknown`` is "skip" or "zero", the result equals gensim's ``evaluate_word_pairs`` (there ``dummy4unknown``). If
    fewer than two pairs are used, the correlations are NaN. ``name`` is the name of the pairs in the result.
    """
    own = [all(vectors.place(word, ignore_case) is not None for word in pair[:2]) for pair in pairs]
    cosines, scores = [], []
    for pair, known in zip(pairs, own, strict=True):
        cosine = _cosine(vectors, pair, known, unknown, ignore_case)
        if cosine is not None:
            cosines.append(cosine)
            scores.append(pair.score)
    x_N, y_N = np.array(scores), np.array(cosines)
    return SimilarityResult(
        name, len(pairs), sum(own), len(scores), estimate(spearman, x_N, y_N), estimate(pearson, x_N, y_N)
    )


def _cosine(vectors: Vectors, pair: ScoredPair, known: bool, unknown: Unknown, ignore_case: bool) -> float | None:
    """The cosine of a pair; None if the pair is left out."""
    if not known and unknown != "subwords":
        return None if unknown == "skip" else 0.0
    rows = [vectors.vector(word, ignore_case) for word in pair[:2]]
    return None if rows[0] is None or rows[1] is None else cosine(rows[0], rows[1])


def cosine(one_D: Floats, other_D: Floats) -> float:
    """The cosine of the angle between two vectors; 0 if one of them is zero."""
    return float(normalised(one_D) @ normalised(other_D))
