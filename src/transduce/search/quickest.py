"""The quickest search with the limits of another search, for validation during training."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from transduce.core.protocols import Search
from transduce.search.beam import Beam
from transduce.search.exact import Exact
from transduce.search.greedy import Greedy
from transduce.search.length_beam import LengthBeam
from transduce.search.sampling import Sampling


@runtime_checkable
class Quickened(Protocol):
    """A search of a wing that knows its own quickest relative."""

    def quick(self) -> Search[Any]: ...


def quickest(search: Search[Any]) -> Search[Any]:
    """Greedy search with the same ``max_length`` and ``filters`` for a search that goes token by token, one length for
    a length beam, and ``quick()`` of a search that has it, such as the best path for a search among alignments. Other
    searches, also a user's own, are returned unchanged.
    """
    if isinstance(search, Quickened):
        return search.quick()
    if isinstance(search, Beam | Exact | Sampling):
        return Greedy(search.max_length, search.filters)
    return search.resized(1) if isinstance(search, LengthBeam) else search
