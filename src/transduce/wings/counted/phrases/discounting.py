"""Smoothed relative frequencies of phrase pairs (Foster, Kuhn and Johnson 2006). U different phrase pairs."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Numbers = NDArray[np.float64]

Discount = Literal["none", "good-turing", "kneser-ney"]


def probabilities(count_U: Ids, given_U: Ids, chosen_U: Ids, discount: Discount) -> Numbers:
    """[U]: p(chosen | given) of each phrase pair. ``given_U`` and ``chosen_U`` are the numbers of its two phrases,
    ``count_U`` its count. n(c) is the number of pairs with the count c.

    "none" divides the count by the total of the given phrase. "good-turing" first replaces each count c below 6 by (c +
    1) n(c + 1) / n(c) (their section 3.1). c stays if n(c) or n(c + 1) is 0, or if the result is above c.

    "kneser-ney" subtracts D = n(1) / (n(1) + 2 n(2)) from each count (D = 0.5 if n(1) or n(2) is 0). The given phrase's
    share of D is distributed in proportion to the number of phrases that each chosen phrase occurs with (section 3.2).
    """
    count = count_U.astype(np.float64)
    total_U = np.bincount(given_U, count)[given_U]
    if discount == "none":
        return count / total_U
    sizes = np.bincount(np.minimum(count_U, 8), minlength=9).astype(np.float64)
    if discount == "good-turing":
        return _good_turing(count_U, sizes) / total_U
    taken = sizes[1] / (sizes[1] + 2 * sizes[2]) if sizes[1] and sizes[2] else 0.5
    pairs_U = np.bincount(given_U)[given_U]
    seen_U = np.bincount(chosen_U)[chosen_U] / len(chosen_U)
    smooth: Numbers = (count - taken) / total_U + taken * pairs_U / total_U * seen_U
    return smooth


def _good_turing(count_U: Ids, sizes: Numbers) -> Numbers:
    adjusted = np.arange(9, dtype=np.float64)
    for size in range(1, 6):
        if sizes[size] and sizes[size + 1]:
            turing = (size + 1) * sizes[size + 1] / sizes[size]
            adjusted[size] = turing if 0 < turing <= size else size
    return np.where(count_U < 6, adjusted[np.minimum(count_U, 8)], count_U)
