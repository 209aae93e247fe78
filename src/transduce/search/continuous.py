"""Continuous batching: sources leave the batch when they finish, and waiting sources take their places.

With a fixed batch, a step costs almost as much for the last few sources as for all. Here the batch stays full.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

from transduce.errors import UserError
from transduce.search.base import Continuous, Finished, G
from transduce.types import Hypothesis, Padded

Q = TypeVar("Q")
SHARE = 0.5  # of the batch that must be free before sources enter: each entry copies the state of the whole batch


class ContinuousBatch(Generic[G]):
    """A batch of at most ``size`` sources that enter and leave while the search runs.

    The caller names each source by a key, a number that no other active source has, and calls ``step`` until the
    source's key is returned. Its hypotheses do not depend on its companions, up to rounding. Raises UserError if
    ``size`` is less than 1, or if sources of different ages cannot share a batch of this search.
    """

    def __init__(self, search: Continuous[G], model: Any, size: int) -> None:
        if size < 1:
            raise UserError(f"batch_size = {size}: at least one sentence goes in a batch")
        if not search.staggered:
            raise UserError(
                f"sources cannot enter and leave a batch of this search ({search}): an observer or a filter needs all "
                "sources to have the same age; use fixed batches"
            )
        self.search, self.model, self.size = search, model, size
        self._group: G | None = None

    @property
    def active(self) -> list[int]:
        """The keys of the sources that are not finished."""
        return [] if self._group is None else self._group.active

    @property
    def free(self) -> int:
        """How many sources may enter now."""
        return self.size - len(self.active)

    @property
    def has_room(self) -> bool:
        """True if enough places are free that the entry of new sources pays."""
        return self.free >= max(1, SHARE * self.size)

    def enter(self, source: Any, keys: Sequence[int], prefix: Padded | None = None) -> Finished:
        """Begins with more sources and does their first step. Returns those that it finished.

        ``source`` has one row for each of ``keys``, and ``prefix``, if given, the tokens that its outputs begin with.
        Raises UserError if there are more than ``free``.
        """
        if len(keys) > self.free:
            raise UserError(f"{len(keys)} sources cannot enter a batch with {self.free} free places")
        entered, finished = self.search.enter(self.model, source, keys, prefix)
        groups = [group for group in (self._group, entered) if group is not None and group.active]
        self._group = self.search.join(groups) if len(groups) > 1 else next(iter(groups), None)
        return finished

    def step(self) -> Finished:
        """Does one step for all active sources. Returns those that it finished; nothing if no source is active."""
        if self._group is None or not self._group.active:
            return []
        self._group, finished = self.search.step(self.model, self.search.leave(self._group))
        return finished

    def drop(self, keys: Collection[int]) -> None:
        """Gives up these sources. They are not returned."""
        if self._group is not None:
            self._group = self._group.without(keys)


def search_continuously(
    search: Continuous[Any],
    model: Any,
    sources: Iterable[Q],
    size: int,
    padded: Callable[[list[Q]], tuple[Any, Padded | None]],
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """Yields the hypotheses of each source, best first, as soon as it is finished, with its index in ``sources``.

    At most ``size`` sources are in the batch. ``padded`` makes some of them a batch, with the prefixes of their outputs
    or None. Sources are read when there is room for them. Raises UserError as ``ContinuousBatch`` does.
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
