"""Confidence intervals and significance tests: how much of a score, or of a difference, depends on the sampled
examples.

R resamples or trials, N examples, K statistics of a metric. ``counts_RN`` is the number of times that each example was
drawn, so all sums of statistics [R, K] are one product. A resampling depends only on its settings and on N, so systems
and metrics are compared on the same resamples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from transduce.core.errors import UserError
from transduce.metrics.statistics import Floats, Statistics

LEVEL = 0.05
MOST = 10_000_000  # resamples or trials
BLOCK = 1 << 22  # counts per block


class Interval(NamedTuple):
    """The ends of an interval, both included."""

    low: float
    high: float


@dataclass(frozen=True)
class Difference:
    """The difference of two systems' scores, first minus second, in ``value``: its 95 % bootstrap interval and two
    p-values.

    ``bootstrap_p`` is the p-value of the paired bootstrap, as in sacreBLEU. ``randomisation_p`` is the p-value of the
    two-sided randomisation test.
    """

    value: float
    interval: Interval
    bootstrap_p: float
    randomisation_p: float


@dataclass(frozen=True)
class Resampling:
    """The settings of the tests: bootstrap ``resamples``, ``trials`` of approximate randomisation, and the ``seed``.
    Raises UserError if one of the first two is not 1 to ``MOST``.
    """

    resamples: int = 1000
    trials: int = 10_000
    seed: int = 12345

    def __post_init__(self) -> None:
        for name in ("resamples", "trials"):
            if not 1 <= getattr(self, name) <= MOST:
                raise UserError(f"{name} = {getattr(self, name)}: 1 to {MOST:,}, some thousands for a p near 0.05")

    @property
    def signature(self) -> str:
        """The settings in sacreBLEU's form."""
        return f"bs:{self.resamples}|ar:{self.trials}|seed:{self.seed}"

    def interval(self, statistics: Statistics) -> Interval:
        """The 95 % interval of the corpus score: the middle 95 % of the scores of ``resamples`` corpora that are drawn
        from this one with replacement, each with as many examples (Efron 1979).
        """
        return middle(self.bootstrap(statistics))

    def bootstrap(self, statistics: Statistics) -> Floats:
        """[R]: the score of each bootstrap resample, in the order of drawing."""
        rows_NK = _told_apart(statistics.rows_NK)
        sums = [counts_RN @ rows_NK for counts_RN in self._draws(len(rows_NK))]
        return statistics.scores(_together(np.concatenate(sums)))

    def difference(self, one: Statistics, other: Statistics) -> Difference:
        """Compares two systems on the same examples in the same order. The difference is the score of ``one`` minus
        ``other``'s.

        If one score is infinite (a perplexity), so is the difference; the difference of two infinite scores is nan.
        Chance can be excluded in neither case, so both p-values are 1. Raises UserError if the numbers of examples
        differ, or if the two systems' metrics saw labels in different orders.
        """
        if len(one.rows_NK) != len(other.rows_NK):
            raise UserError(
                f"{len(one.rows_NK)} examples against {len(other.rows_NK)}: systems are compared on the same ones"
            )
        one, other = one.beside(other), other.beside(one)
        value = one.score - other.score
        sampled = _difference(self.bootstrap(one), self.bootstrap(other))
        shuffled = self._randomised(one, other)
        return Difference(value, middle(sampled), bootstrap_p(value, sampled), share_beyond(value, np.abs(shuffled)))

    def _randomised(self, one: Statistics, other: Statistics) -> Floats:
        """[R], one value per trial: the difference after a random exchange of the two systems' outputs for each
        example.
        """
        one_NK, other_NK = _told_apart(one.rows_NK), _told_apart(other.rows_NK)
        ours_RK = np.concatenate([s @ one_NK + (1 - s) @ other_NK for s in self._coins(len(one_NK))])
        theirs_RK = one_NK.sum(0) + other_NK.sum(0) - ours_RK
        return _difference(one.scores(_together(ours_RK)), other.scores(_together(theirs_RK)))

    def _draws(self, examples: int) -> Iterator[Floats]:
        """Yields blocks [rows, N], ``resamples`` rows in all, of how often each example is drawn. sacreBLEU draws the
        same with the same seed.
        """
        draw = np.random.default_rng(self.seed)
        for rows in _blocks(self.resamples, examples):
            drawn_RN = draw.choice(examples, size=(rows, examples), replace=True)
            places_RN = drawn_RN + examples * np.arange(rows)[:, None]
            yield np.bincount(places_RN.ravel(), minlength=rows * examples).reshape(rows, examples).astype(float)

    def _coins(self, examples: int) -> Iterator[Floats]:
        """Yields blocks [rows, N], ``trials`` rows in all, of 0 or 1 at random."""
        draw = np.random.default_rng(self.seed)
        for rows in _blocks(self.trials, examples):
            yield draw.integers(2, size=(rows, examples), dtype=bool).astype(float)


def middle(scores_R: Floats) -> Interval:
    """The 2.5th and the 97.5th percentile of scores [R]: the ends of a 95 % interval. Each is one of the scores.

    Scores that are NaN are left out: these resamples have no example to measure. If all are NaN, so are the ends.
    """
    scores_R = scores_R[~np.isnan(scores_R)]
    if not len(scores_R):
        return Interval(np.nan, np.nan)
    low, high = np.quantile(scores_R, [LEVEL / 2, 1 - LEVEL / 2], method="inverted_cdf")
    return Interval(float(low), float(high))


def bootstrap_p(value: float, sampled_R: Floats) -> float:
    """The p-value of the paired bootstrap (Koehn, EMNLP 2004), as in Moses and sacreBLEU. It is 1 if the difference
    ``value``, or one of the resampled differences ``sampled_R``, is infinite or nan.

    The absolute differences of the resamples are shifted to mean 0. The result is the share of them that are at least
    as large as |value| (``share_beyond``). Near significance this is a one-sided probability: between equal systems it
    is below 0.05 about once in ten times.
    """
    sizes_R = np.abs(sampled_R)
    mean = sizes_R.mean()
    return share_beyond(value, sizes_R - mean) if np.isfinite([value, mean]).all() else 1.0


def share_beyond(value: float, sizes_R: Floats) -> float:
    """(c + 1) / (R + 1), where c of the R ``sizes_R`` are at least as large as |value|.

    Equal sizes count. Otherwise a metric with few values (``exact``) would turn each tie into a difference. nan counts
    too.
    """
    smaller_R = sizes_R < abs(value) - 1e-9  # nan is not smaller than any value
    return float((~smaller_R).sum() + 1) / (len(sizes_R) + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """The adjusted p-values of a family of tests, in the same order (Holm 1979).

    If each adjusted p-value up to ``LEVEL`` counts as significant, at most that share of families has a false positive.
    """
    order = sorted(range(len(p_values)), key=lambda test: p_values[test])
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, test in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * p_values[test]))
        adjusted[test] = highest
    return adjusted


def _told_apart(rows_NK: Floats) -> Floats:
    """[N, 2 K]: K columns with 0 in place of infinity, then K columns with 1 where infinity was.

    Products need this, because 0 times infinity would be nan.
    """
    infinite_NK = rows_NK == np.inf
    return np.concatenate([np.where(infinite_NK, 0.0, rows_NK), infinite_NK], 1)


def _together(sums_R2K: Floats) -> Floats:
    """[R, K]: undoes ``_told_apart`` for sums of its rows. A sum is infinite if one of its numbers was."""
    finite_RK, infinite_RK = np.hsplit(sums_R2K, 2)
    return np.where(infinite_RK > 0, np.inf, finite_RK)


def _difference(one_R: Floats, other_R: Floats) -> Floats:
    with np.errstate(invalid="ignore"):  # the difference of two infinite perplexities is nan
        return one_R - other_R


def _blocks(rows: int, examples: int) -> Iterator[int]:
    """Yields how many rows each block has, so that it fits into memory; these numbers sum to ``rows``. ``examples`` is
    N.

    All blocks but the last have a multiple of 32 rows, which takes whole words of random bits. So the block size
    changes no draw.
    """
    most = max(1, BLOCK // examples // 32) * 32
    for start in range(0, rows, most):
        yield min(most, rows - start)
