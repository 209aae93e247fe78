"""Searches many sources in one batch that they enter and leave, as a server does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from transduce.core.protocols import Autoregressive
from transduce.core.types import Hypothesis, Padded
from transduce.search.base import Continuous, G
from transduce.search.continuous import ContinuousBatch

Q = TypeVar("Q")  # a source that waits
S = TypeVar("S")  # a model's state


def search_continuously(
    search: Continuous[G],
    model: Autoregressive[S],
    sources: Iterable[Q],
    size: int,
    padded: Callable[[list[Q]], tuple[object, Padded | None]],
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """Yields the index of each source in ``sources`` and its hypotheses, best first, as soon as the source is finished.

    The batch has at most ``size`` sources. ``padded`` makes a batch of some sources, with the prefixes of their outputs
    or None. Sources are read when there is room for them. Raises UserError like ``ContinuousBatch``.
    """
    waiting, batch, first = iter(sources), ContinuousBatch(search, model, size), 0
    while True:
        if batch.has_room and (some := list(islice(waiting, batch.free))):
            source, prefix = padded(some)
            yield from batch.enter(source, range(first, first + len(some)), prefix)
            first += len(some)
        elif batch.active:
            yield from batch.step()
        else:
            break
