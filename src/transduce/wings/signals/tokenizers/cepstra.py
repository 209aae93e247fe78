"""What follows log-mel energies: the silence around speech cut off, cepstra, and differences over time.

S frames, M mel bands, K coefficients.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
REACH = 2  # frames on either side that a difference sees


def decibels(number: float) -> float:
    """A number of decibels as a difference of natural logarithms of a power."""
    return number * math.log(10) / 10


def without_silence(x_SM: Array, below: float) -> Array:
    """The frames from the first to the last one whose power, summed over the bands, is at most ``below`` decibels less
    than that of the loudest frame. At least one frame is left. ``x_SM`` are logarithms. If one is NaN, all frames stay.
    """
    largest = x_SM.max()
    with np.errstate(invalid="ignore", over="ignore"):
        power_S = np.exp(x_SM - largest).sum(1, dtype=np.float64)
        loud_S = np.flatnonzero(power_S >= power_S.max() * math.exp(-decibels(below)))
    return x_SM[loud_S[0] : loud_S[-1] + 1] if len(loud_S) else x_SM


def cepstra(x_SM: Array, count: int) -> Array:
    """The first ``count`` mel-frequency cepstral coefficients [S, count] of log energies: their orthonormal discrete
    cosine transform, c(k) = sqrt((2 - [k = 0]) / M) sum_m x(m) cos(pi k (m + 1/2) / M) (Davis and Mermelstein 1980).
    """
    bands = x_SM.shape[1]
    order_1K, band_M1 = np.arange(count)[None], np.arange(bands)[:, None]
    basis_MK = np.cos(np.pi * order_1K * (band_M1 + 0.5) / bands) * np.sqrt(np.where(order_1K, 2, 1) / bands)
    found: Array = (x_SM @ basis_MK).astype(np.float32)
    return found


def with_differences(x_SK: Array, order: int) -> Array:
    """The numbers with their ``order`` differences over time, [S, K * (order + 1)]. Each difference is the slope of
    a line through five frames of the one before: d(s) = sum_n n (x(s + n) - x(s - n)) / 10 with n = 1, 2 (Furui 1986).
    The first and the last frame continue beyond the ends.
    """
    parts = [x_SK]
    for _ in range(order):
        padded = np.pad(parts[-1], ((REACH, REACH), (0, 0)), mode="edge")
        size = len(x_SK)
        slopes = [
            n * (padded[REACH + n : REACH + n + size] - padded[REACH - n : REACH - n + size])
            for n in range(1, REACH + 1)
        ]
        slope_SK: Array = np.sum(np.stack(slopes), 0) / np.float32(2 * sum(n * n for n in range(1, REACH + 1)))
        parts.append(slope_SK)
    return np.concatenate(parts, 1)
