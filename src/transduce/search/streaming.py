"""One output as it is decided, token by token."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

from transduce.protocols import Search
from transduce.types import Padded


@runtime_checkable
class Streaming(Protocol):
    """What a search can that knows the beginning of an output before all of it.

    ``stream`` is given one source, and yields again and again the tokens of its best output that no further step can
    change: more each time, or as many; in the end all of them.
    """

    def stream(self, model: Any, source: Any, prefix: Padded | None = None) -> Iterator[tuple[int, ...]]: ...


def stream(search: Search[Any], model: Any, source: Any, prefix: Padded | None = None) -> Iterator[tuple[int, ...]]:
    """The decided tokens of one source's best output; of a search that knows nothing before the end, all at once."""
    if isinstance(search, Streaming):
        yield from search.stream(model, source, prefix)
    else:
        yield search(model, source, prefix)[0][0].tokens
