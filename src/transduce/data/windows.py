"""Sentences put together by length, and answered in the order in which they came."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import TypeVar

from transduce.errors import UserError

WINDOW = 64  # batches read ahead, to put sentences of like length together
SIGNALS_AHEAD = 4  # as many, where each is a recording or a picture
R = TypeVar("R")
Q = TypeVar("Q")


def windows(items: Iterable[R], batch_size: int, ahead: int = WINDOW) -> Iterator[list[R]]:
    """The items in lists of up to ``ahead`` batches; one batch at a time where batches are of one: an answer a line."""
    if batch_size < 1:
        raise UserError(f"batch_size = {batch_size}: at least one sentence goes in a batch")
    iterator = iter(items)
    while window := list(islice(iterator, batch_size * (ahead if batch_size > 1 else 1))):
        yield window


def sorted_batches(
    rows: Sequence[tuple[int, Q]], batch_size: int, answer: Callable[[Iterable[list[Q]]], Iterable[Iterable[R]]]
) -> list[R]:
    """``answer`` asked of batches of like length, the longest first; its answers in the order of ``rows``, which have
    their lengths beside them."""
    order = sorted(range(len(rows)), key=lambda row: -rows[row][0])
    cut = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    batches = [[rows[row][1] for row in places] for places in cut]
    answers = chain.from_iterable(answer(batches))
    return [found for _, found in sorted(zip(order, answers, strict=True), key=itemgetter(0))]
