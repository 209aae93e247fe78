"""Batches items of similar length, and returns the answers in the order of the input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import TypeVar

from transduce.answers.paused_input import Arrivals
from transduce.core.config.errors import shown
from transduce.core.errors import UserError
from transduce.core.stages import Stage, counted, size_of

WINDOW = 64  # batches to read ahead, so that sentences of similar length share a batch
MOST_AHEAD = 2**16  # items, unless a batch is larger: more would only fill the memory
LARGEST = 1_000_000  # sentences of a batch, and lines of a window
SIGNALS_AHEAD = 4  # the same if each item is a recording or a picture
R = TypeVar("R")
Q = TypeVar("Q")


def window_size(batch_size: int, ahead: int = WINDOW) -> int:
    """The number of items to read before the first batch: ``ahead`` times ``batch_size``, at most ``MOST_AHEAD`` or
    one batch.

    If ``batch_size`` is 1, it is 1, so that each line is answered at once. Raises UserError for a ``batch_size`` below
    1 or above ``LARGEST``.
    """
    check_batch_size(batch_size)
    return min(batch_size * ahead, max(batch_size, MOST_AHEAD)) if batch_size > 1 else 1


def check_batch_size(batch_size: int) -> None:
    """Raises UserError unless it is 1 to ``LARGEST``."""
    if not 1 <= batch_size <= LARGEST:
        raise UserError(f"batch_size = {shown(batch_size)}: 1 to {LARGEST:,} sentences go in a batch")


def windows(items: Iterable[R], size: int) -> Iterator[list[R]]:
    """Yields the items, in order, in lists of ``size``; the last list may be shorter. Reads a list when it is asked
    for. A list of ``Arrivals`` also ends when they pause.

    Raises UserError for a ``size`` below 1 or above ``LARGEST``. If ``items`` raises an error, it yields the items
    before it first.
    """
    if not 1 <= size <= LARGEST:
        raise UserError(f"window = {shown(size)}: 1 to {LARGEST:,} lines go in a window")
    iterator, problem, now = iter(items), None, Stage("examples", size_of(items))
    while problem is None:
        window = list[R]()
        try:
            following = iterator.window(size) if isinstance(iterator, Arrivals) else islice(iterator, size)
            window.extend(following)  # keeps what comes before an error
        except Exception as error:
            problem = error
        if window:
            now.step = size
            with now:  # it is not open while it waits for items
                yield window
            now.done += len(window)
        elif problem is None:
            return
    raise problem


def sorted_batches(
    rows: Sequence[tuple[int, Q]], batch_size: int, answer: Callable[[Iterable[list[Q]]], Iterable[Iterable[R]]]
) -> list[R]:
    """Answers rows in batches of similar length, the longest first. Returns the answers in the order of ``rows``.

    Each row is a pair of its length and its item. ``answer`` is called once with all batches of items. For each batch
    it gives one answer per item, in order. Raises UserError for a ``batch_size`` below 1 or above ``LARGEST``.
    """
    check_batch_size(batch_size)
    order = sorted(range(len(rows)), key=lambda row: -rows[row][0])
    cut = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    batches = [[rows[row][1] for row in places] for places in cut]
    answers = chain.from_iterable(counted(answer(batches), "batches", len(batches)))
    return [found for _, found in sorted(zip(order, answers, strict=True), key=itemgetter(0))]
