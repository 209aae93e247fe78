"""The quickest search with the limits of another search, for validation during training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from transduce.protocols import Search
from transduce.search.beam import Beam
from transduce.search.exact import Exact
from transduce.search.frames.alignment_sampling import AlignmentSampling
from transduce.search.frames.best_path import BestPath
from transduce.search.frames.prefix_beam import PrefixBeam
from transduce.search.greedy import Greedy
from transduce.search.length_beam import LengthBeam
from transduce.search.sampling import Sampling
from transduce.search.shortlist import Shortlist


def quickest(search: Search[Any]) -> Search[Any]:
    """Greedy search with the same ``max_length`` and ``filters`` for a search that goes token by token, the best path
    for a search among alignments, and one length for a length beam. Other searches, also a user's own, are returned
    unchanged.
    """
    if isinstance(search, Shortlist):
        return replace(search, search=quickest(search.search))
    if isinstance(search, Beam | Exact | Sampling):
        return Greedy(search.max_length, search.filters)
    if isinstance(search, PrefixBeam | AlignmentSampling):
        return BestPath()
    return search.resized(1) if isinstance(search, LengthBeam) else search
