"""Mean and deviation of a stream of numbers. N rows, C channels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Moments:
    """Mean and deviation of each channel in one pass, without cancellation errors (Chan, Golub and LeVeque 1983)."""

    def __init__(self) -> None:
        self.count = 0
        self.mean_C: Array = np.zeros(1)
        self._squares_C: Array = np.zeros(1)  # sum of squared distances from the mean

    def add(self, x_NC: NDArray[Any]) -> None:
        """Adds at least one row."""
        own_C, before, self.count = x_NC.mean(0, dtype=np.float64), self.count, self.count + len(x_NC)
        apart_C, weight = own_C - self.mean_C, len(x_NC) / self.count
        self._squares_C = self._squares_C + ((x_NC - own_C) ** 2).sum(0) + apart_C**2 * before * weight
        self.mean_C = self.mean_C + apart_C * weight

    @property
    def deviation_C(self) -> Array:
        """The standard deviation of all rows so far."""
        return np.sqrt(self._squares_C / self.count)
