"""Correlations of two lists of numbers, with confidence intervals, and the interval of a share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from transduce.core.errors import UserError
from transduce.wings.vectors.table import Floats

RESAMPLES = 1000
SEED = 12345
NORMAL_95 = 1.959963984540054  # the 97.5 % quantile of the normal distribution


class Estimate(NamedTuple):
    """A value, and its 95 % confidence interval from ``low`` to ``high``."""

    value: float
    low: float
    high: float


def pearson(x_N: Floats, y_N: Floats) -> float:
    """Pearson's correlation of two lists of numbers; NaN if one of them is constant or has fewer than two numbers."""
    x_N, y_N = np.asarray(x_N, dtype=np.float64), np.asarray(y_N, dtype=np.float64)
    if len(x_N) < 2:
        return math.nan
    x_N, y_N = x_N - x_N.mean(), y_N - y_N.mean()
    spread = math.sqrt(float(x_N @ x_N) * float(y_N @ y_N))
    return float(x_N @ y_N) / spread if spread else math.nan


def spearman(x_N: Floats, y_N: Floats) -> float:
    """Spearman's rank correlation: Pearson's correlation of the ranks. Equal numbers share their mean rank."""
    return pearson(ranks(x_N), ranks(y_N))


def ranks(x_N: Floats) -> Floats:
    """The ranks of numbers, from 1 for the smallest. Equal numbers share their mean rank."""
    _, group_N, count_G = np.unique(x_N, return_inverse=True, return_counts=True)
    last_G = np.cumsum(count_G)
    mean_G = last_G - (count_G - 1) / 2
    return mean_G[group_N.reshape(-1)]


def estimate(
    correlation: Callable[[Floats, Floats], float], x_N: Floats, y_N: Floats, resamples: int = RESAMPLES
) -> Estimate:
    """The correlation of x and y with the percentile interval of the bootstrap: ``resamples`` samples of N pairs, drawn
    with replacement under a fixed seed. A resample whose correlation is NaN is left out.
    """
    generator = np.random.default_rng(SEED)
    value = correlation(x_N, y_N)
    if math.isnan(value):
        return Estimate(value, math.nan, math.nan)
    drawn = (generator.integers(len(x_N), size=len(x_N)) for _ in range(resamples))
    found = np.array([correlation(x_N[rows], y_N[rows]) for rows in drawn])
    low, high = np.nanquantile(found, [0.025, 0.975])
    return Estimate(value, float(low), float(high))


def share(right: int, of: int) -> Estimate:
    """The share ``right / of`` with Wilson's 95 % interval (Wilson 1927); NaN if ``of`` is 0. Raises UserError if
    ``right`` is not 0 to ``of``.
    """
    if not 0 <= right <= of:
        raise UserError(f"{right} right answers of {of}: a number from 0 to {of} was expected")
    if not of:
        return Estimate(math.nan, math.nan, math.nan)
    p, z2 = right / of, NORMAL_95**2
    middle = (p + z2 / (2 * of)) / (1 + z2 / of)
    half = NORMAL_95 * math.sqrt(p * (1 - p) / of + z2 / (4 * of * of)) / (1 + z2 / of)
    return Estimate(p, max(0.0, middle - half), min(1.0, middle + half))
