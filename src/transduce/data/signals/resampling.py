"""Resampling by libsoxr. N samples in, M samples out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transduce.data.signals.files import lacking

Samples = NDArray[np.float32]


def resampled(x_N: Samples, ratio: float) -> Samples:
    """``ratio`` samples for each input sample, without aliasing. Raises DataError without the library.

    A recording at 16 kHz with ratio 0.5 becomes one at 8 kHz. Played at the old rate, ratio 0.9 is faster (and higher)
    by a ninth.
    """
    if ratio == 1:
        return x_N
    if len(x_N) * ratio < 1:  # the library would return no sample
        x_N = np.pad(x_N, (0, math.ceil(1 / ratio) - len(x_N)))
    y_M: Samples = _library().resample(x_N, 1.0, ratio)
    return y_M


def _library() -> Any:
    try:
        import soxr  # type: ignore[import-untyped]
    except ImportError as error:
        raise lacking("soxr", "audio") from error
    return soxr
