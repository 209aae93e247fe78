"""Calibration: is a model right as often as its confidence says? Guo et al., ICML 2017. N tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from transduce.core.errors import UserError

Shares = Literal["width", "mass"]


@dataclass(frozen=True)
class ConfidenceBin:
    """Tokens with similar confidence: their number ``tokens``, their mean ``confidence``, and their ``accuracy``, the
    share of tokens for which the model's first choice is right. Both are in [0, 1].

    ``low`` and ``high`` are the bin's edges, or for bins of equal mass the lowest and the highest confidence in it.
    """

    low: float
    high: float
    tokens: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Calibration:
    """The reliability curve and its summary over all tokens. Confidences and shares are in [0, 1].

    ``bins`` are the non-empty bins, sorted by confidence. ``tokens`` is N. The summary is the mean ``confidence``, the
    ``accuracy``, and the expected calibration ``error``: sum_b n_b / N |accuracy_b - confidence_b|. ``signature`` has
    the settings as text.
    """

    bins: tuple[ConfidenceBin, ...]
    tokens: int
    confidence: float
    accuracy: float
    error: float
    signature: str


def calibration(confidence: ArrayLike, right: ArrayLike, bins: int = 15, shares: Shares = "width") -> Calibration:
    """The calibration of tokens. ``confidence`` [N] is the probability of the model's first choice, in [0, 1];
    ``right`` [N] is 1 if that choice is right, else 0.

    ``bins`` is the largest number of bins. Their ``shares`` are equal in "width" of confidence, or in "mass" (about the
    same number of tokens). Raises UserError if there are no tokens, if the lengths differ, for confidences outside [0,
    1], or for ``bins`` below 1.
    """
    confidence_N, right_N = np.asarray(confidence, float), np.asarray(right, float)
    if len(confidence_N) != len(right_N) or not len(right_N):
        raise UserError(f"{len(confidence_N)} confidences for {len(right_N)} tokens: one for each of some is needed")
    if confidence_N.min() < 0 or confidence_N.max() > 1 + 1e-6:
        raise UserError(f"confidences from {confidence_N.min()} to {confidence_N.max()}: probabilities were expected")
    if bins < 1:
        raise UserError(f"bins = {bins}: at least one is needed")
    order_N = np.argsort(confidence_N, kind="stable")
    edges = np.linspace(0, 1, bins + 1)
    if shares == "width":  # open below, closed above, as in the paper
        ends = np.searchsorted(confidence_N[order_N], edges[1:-1], side="right")
    else:
        ends = np.round(edges[1:-1] * len(order_N)).astype(int)
    found = []
    for number, places in enumerate(np.split(order_N, ends)):
        if len(places):
            sure = confidence_N[places]
            low, high = (edges[number], edges[number + 1]) if shares == "width" else (sure[0], sure[-1])
            accuracy = float(right_N[places].mean())
            found.append(ConfidenceBin(float(low), float(high), len(places), float(sure.mean()), accuracy))
    total = len(order_N)
    error = sum(each.tokens * abs(each.accuracy - each.confidence) for each in found) / total
    signature = f"unit:token|refs:first|bins:{bins}|shares:{shares}"
    return Calibration(tuple(found), total, float(confidence_N.mean()), float(right_N.mean()), error, signature)
