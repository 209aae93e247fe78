"""The word embedding association test, WEAT (Caliskan et al. 2017)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from transduce.core.errors import UserError
from transduce.wings.vectors.direction import read_json
from transduce.wings.vectors.table import Floats, Vectors

EXACT = 200_000  # up to this number of partitions, all are enumerated
SAMPLES = 100_000  # random partitions, if there are more
AT_ONCE = 4096
ROUNDING = 1e-9  # a partition whose statistic is larger by less counts as equal
PARTS = ("targ1", "targ2", "attr1", "attr2")


@dataclass(frozen=True)
class Test:
    """Two sets of target words X and Y, such as flowers and insects, and two sets of attribute words A and B, such as
    pleasant and unpleasant. ``categories`` are the names of the four sets.
    """

    __test__ = False  # pytest collects classes of this name

    name: str
    categories: tuple[str, str, str, str]
    x: tuple[str, ...]
    y: tuple[str, ...]
    a: tuple[str, ...]
    b: tuple[str, ...]


@dataclass(frozen=True)
class Association:
    """The result of a test. A positive ``effect`` means that X is nearer to A, and Y to B.

    ``size`` is the mean of |s| over both target sets. It tells whether associations are small. The effect size does not
    tell that, because it is relative to the spread of s. ``p`` is the one-sided p-value, and ``exact`` tells whether
    all partitions were enumerated. ``known`` is the number of words with a vector, and ``words`` the number of all
    words, in the four sets together. ``effect``, ``size`` and ``p`` are NaN if one of the sets has fewer than two words
    with a vector.
    """

    test: Test
    effect: float
    size: float
    p: float
    exact: bool
    known: int
    words: int


def read_test(path: str | Path) -> Test:
    """The test of a JSON file with the keys targ1, targ2, attr1 and attr2, each with a "category" and its "examples".
    Raises UserError for another form.
    """
    found = read_json(path, "a WEAT test")
    try:
        categories = tuple(str(found[part]["category"]) for part in PARTS)
        x, y, a, b = (tuple(str(word) for word in found[part]["examples"]) for part in PARTS)
    except (KeyError, TypeError) as error:
        raise UserError(
            f'{path}: the keys {", ".join(PARTS)} were expected, each with "category" and "examples" ({error!r})'
        ) from error
    return Test(Path(path).stem, categories, x, y, a, b)  # type: ignore[arg-type]


def weat(vectors: Vectors, test: Test, limit: int = EXACT, samples: int = SAMPLES, seed: int = 1) -> Association:
    """The effect size and the p-value of a test.

    Let s(w) = mean_a cos(w, a) - mean_b cos(w, b). The effect size is the mean of s over X minus its mean over Y. It is
    divided by the standard deviation of s over X and Y together (with n - 1). The p-value comes from the partitions of
    the words of X and Y into two sets of the same sizes. It is the share of partitions whose difference of means is
    larger than the observed one. If there are more than ``limit`` partitions, it comes from ``samples`` random ones:
    (1 + larger ones) / (1 + samples). Words without a vector are left out. A word is looked up exactly, then in any
    case.
    """
    x, y, a, b = (sorted(set(vectors.places(words))) for words in (test.x, test.y, test.a, test.b))
    known, words = sum(map(len, (x, y, a, b))), sum(map(len, (test.x, test.y, test.a, test.b)))
    if min(map(len, (x, y, a, b))) < 2:
        return Association(test, math.nan, math.nan, math.nan, True, known, words)
    s_N = associations(vectors, [*x, *y], a, b)
    spread = float(s_N.std(ddof=1))
    effect = float(s_N[: len(x)].mean() - s_N[len(x) :].mean()) / spread if spread else math.nan
    exact = math.comb(len(s_N), len(x)) <= limit
    p = p_exact(s_N, len(x)) if exact else p_sampled(s_N, len(x), samples, seed)
    return Association(test, effect, float(np.abs(s_N).mean()), p, exact, known, words)


def associations(vectors: Vectors, words: list[int], a: list[int], b: list[int]) -> Floats:
    """The associations s [N] of N words: the mean cosine with the words ``a`` minus the mean cosine with the words
    ``b``. All words are given by their rows.
    """
    unit_VD = vectors.unit_VD
    difference_D = unit_VD[a].astype(np.float64).mean(0) - unit_VD[b].astype(np.float64).mean(0)
    found: Floats = unit_VD[words].astype(np.float64) @ difference_D
    return found


def p_exact(s_N: Floats, size: int) -> float:
    """The p-value from all partitions of N words into ``size`` words and the others. The first ``size`` words are the
    observed set.
    """
    larger = total = 0
    threshold = _threshold(s_N, size)
    for rows_PK in _partitions(len(s_N), size):
        larger += int((s_N[rows_PK].sum(1) > threshold).sum())
        total += len(rows_PK)
    return larger / total


def p_sampled(s_N: Floats, size: int, samples: int, seed: int) -> float:
    """The p-value from random partitions, in which the observed one counts as one larger partition."""
    generator = np.random.default_rng(seed)
    larger, threshold = 0, _threshold(s_N, size)
    for start in range(0, samples, AT_ONCE):
        drawn_PN = generator.random((min(AT_ONCE, samples - start), len(s_N)))
        rows_PK = np.argpartition(drawn_PN, size - 1, axis=1)[:, :size]
        larger += int((s_N[rows_PK].sum(1) > threshold).sum())
    return (1 + larger) / (1 + samples)


def _threshold(s_N: Floats, size: int) -> float:
    """The observed sum of s over the first set, which grows with the difference of means. A small number is added, so
    that rounding errors make no equal sum larger.
    """
    return float(s_N[:size].sum()) + ROUNDING * float(np.abs(s_N).sum())


def _partitions(words: int, size: int) -> Iterator[NDArray[np.int64]]:
    """Yields the rows of the first set of each partition, in blocks [P, size]."""
    every = itertools.combinations(range(words), size)
    while block := list(itertools.islice(every, AT_ONCE)):
        yield np.array(block, dtype=np.int64)
