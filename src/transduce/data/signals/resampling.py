"""Samples at another rate, by a windowed sinc. N samples in, M out, K taps of the filter."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]
CROSSINGS = 16  # zeros of the sinc on either side
BLOCK = 2**14  # samples made at once


def resampled(x_N: Samples, ratio: float) -> Samples:
    """``ratio`` samples for every one: of a recording at 16 kHz with ratio 0.5 the same at 8 kHz; played at its old
    rate, ratio 0.9 is faster (and higher) by a ninth.

    y(m) = sum_n x(n) c sinc(c (m / ratio - n)) w(m / ratio - n), with the cutoff c = min(1, ratio), so that nothing is
    folded back, and a Hann window w over 16 zeros of the sinc on either side (Smith, Digital Audio Resampling).
    """
    if ratio == 1:
        return x_N
    cutoff = min(1.0, ratio)
    half = math.ceil(CROSSINGS / cutoff)
    padded = np.pad(x_N, (half, half + 1))
    taps_K = np.arange(-half + 1, half + 1)
    length = max(1, round(len(x_N) * ratio))
    y_M = np.empty(length, np.float32)
    for start in range(0, length, BLOCK):
        places_M = np.arange(start, min(start + BLOCK, length)) / ratio
        whole_M = np.floor(places_M).astype(np.int64)
        apart_MK = (places_M - whole_M)[:, None] - taps_K
        window_MK = np.cos(0.5 * np.pi * apart_MK * (cutoff / CROSSINGS)) ** 2
        window_MK *= np.abs(apart_MK) * cutoff < CROSSINGS
        around_MK = padded[np.minimum(whole_M[:, None] + taps_K + half, len(padded) - 1)]
        y_M[start : start + BLOCK] = (around_MK * cutoff * np.sinc(cutoff * apart_MK) * window_MK).sum(1)
    return y_M
