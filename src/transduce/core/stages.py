"""The stages of long work. The command line shows them on the terminal; from Python nothing is shown."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

T = TypeVar("T")


class Stage:
    """A part of the work, open while it is entered. ``done`` of ``total`` things are finished; ``step`` is how many the
    stages inside it finish. While a stage without a name is open, nothing is shown: its owner shows the progress.
    """

    def __init__(self, name: str, total: int | None = None) -> None:
        self.name, self.total, self.done, self.step, self.began = name, total, 0, 1, time.monotonic()

    def __enter__(self) -> Stage:
        open_stages.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        open_stages.remove(self)


open_stages: list[Stage] = []  # the outermost first


def counted(items: Iterable[T], name: str, total: int | None = None) -> Iterator[T]:
    """Yields the items, and counts them as a stage. The default of ``total`` is their number, if they have one."""
    with Stage(name, size_of(items) if total is None else total) as now:
        for item in items:
            yield item
            now.done += 1


def size_of(items: Iterable[object]) -> int | None:
    """The number of the items, if they have one."""
    return len(items) if isinstance(items, Sized) else None
