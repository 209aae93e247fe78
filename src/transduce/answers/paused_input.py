"""Items that come one by one, such as the lines of a pipe: what has come is answered when the input pauses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

R = TypeVar("R")


class Arrivals(Generic[R]):
    """An iterator of ``items``. ``ready()`` waits a little, and is False if the next item has not come by then."""

    def __init__(self, items: Iterable[R], ready: Callable[[], bool]) -> None:
        self._items, self._ready = iter(items), ready

    def __iter__(self) -> Iterator[R]:
        return self

    def __next__(self) -> R:
        return next(self._items)

    def window(self, size: int) -> Iterator[R]:
        """The next item, as soon as it comes, and those that follow it without a pause: at most ``size`` in all."""
        for place in range(size):
            if place and not self._ready():
                return
            try:
                yield next(self._items)
            except StopIteration:
                return
