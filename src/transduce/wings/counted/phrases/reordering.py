"""How phrase pairs follow each other: monotone, swap or discontinuous (Tillmann 2004; Koehn et al. 2005).

X extracted phrase pairs, L links. Places count from the beginning of the corpus.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from transduce.wings.alignment.links import Links
from transduce.wings.counted.phrases.extraction import Corpus, Extracted

Ids = NDArray[np.int64]
Orientation = Literal["phrase", "word"]

MONOTONE, SWAP, DISCONTINUOUS = 0, 1, 2


def orientations(source: Corpus, target: Corpus, links: Links, found: Extracted, model: Orientation) -> tuple[Ids, Ids]:
    """Two arrays [X]: the orientation of each phrase pair to the phrase before it in the target, and to the phrase
    after it.

    Before: monotone if a phrase pair ends directly before it on both sides, or if it begins both sentences. Swap if a
    phrase pair ends directly before it in the target and begins directly after it in the source. After: monotone if a
    phrase pair begins directly after it on both sides, or if it ends both sentences. Swap if a phrase pair begins
    directly after it in the target and ends directly before it in the source. Otherwise discontinuous.

    ``model`` "phrase" looks for these phrase pairs among the extracted ones. "word" looks for single links instead.
    """
    if model == "word":
        source_L = source.offsets[links.pair_L] + links.source_L
        target_L = target.offsets[links.pair_L] + links.target_L
        corners = (source_L, source_L + 1, target_L, target_L + 1)
    else:
        corners = (found.source_X, found.source_end_X, found.target_X, found.target_end_X)
    start, end, target_start, target_end = corners
    width = len(target.ids) + 2
    ends_end, ends_start, starts_start, starts_end = (
        np.unique(at * width + to)
        for at, to in ((end, target_end), (start, target_end), (start, target_start), (end, target_start))
    )
    last_source = np.isin(found.source_end_X, source.offsets[1:]) & np.isin(found.target_end_X, target.offsets[1:])
    first_source = np.isin(found.source_X, source.offsets[:-1]) & np.isin(found.target_X, target.offsets[:-1])
    before = _orientation(
        first_source | np.isin(found.source_X * width + found.target_X, ends_end),
        np.isin(found.source_end_X * width + found.target_X, ends_start),
    )
    after = _orientation(
        last_source | np.isin(found.source_end_X * width + found.target_end_X, starts_start),
        np.isin(found.source_X * width + found.target_end_X, starts_end),
    )
    return before, after


def _orientation(monotone_X: NDArray[np.bool_], swap_X: NDArray[np.bool_]) -> Ids:
    return np.where(monotone_X, MONOTONE, np.where(swap_X, SWAP, DISCONTINUOUS))
