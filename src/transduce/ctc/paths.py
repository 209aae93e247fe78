"""Alignments of an output with the frames of a source: a symbol or the blank for each frame."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any, TypeVar

T = TypeVar("T")


def collapse(path: Iterable[T], blank: Any = 0) -> tuple[T, ...]:
    """What an alignment reads: repetitions merged, then blanks left out (Graves et al. 2006, section 3.1)."""
    return tuple(symbol for symbol, _ in groupby(path) if symbol != blank)


def least_frames(output: Sequence[Any]) -> int:
    """How many frames an output needs: one for each symbol, and a blank between two that are equal."""
    return len(output) + sum(1 for left, right in pairwise(output) if left == right)


def count(output: Sequence[Any], frames: int) -> int:
    """How many alignments of so many frames read ``output``: of n symbols, r of which repeat the one before,
    C(frames + n - r, 2n)."""
    if frames == 0:
        return int(not output)
    return math.comb(frames + 2 * len(output) - least_frames(output), 2 * len(output))


def alignments(output: Sequence[T], frames: int, blank: Any = 0) -> Iterator[tuple[T, ...]]:
    """Every alignment of so many frames that reads ``output``, one after the other as they are asked for.

    There are ``count`` of them: far too many to list but where frames are few.
    """
    states = [blank, *(each for symbol in output for each in (symbol, blank))]
    if frames == 0 and not output:
        yield ()
    for first in range(min(2, len(states))):
        for path in _ways(states, first, frames):
            yield tuple(states[place] for place in path)


def _ways(states: Sequence[Any], first: int, frames: int) -> Iterator[tuple[int, ...]]:
    """The ways of so many frames from a state, itself included; not by recursion, as they are as deep as frames."""
    path: list[int] = []
    choices = [iter((first,))]  # one more than there are places in the path
    while choices:
        place = next(choices[-1], None)
        if place is None:
            choices.pop()
            del path[-1:]
        elif not _fits(states, place, frames - len(path) - 1):
            continue
        elif len(path) == frames - 1:
            yield (*path, place)
        else:
            path.append(place)
            choices.append(iter(_following(states, place)))


def _fits(states: Sequence[Any], place: int, frames: int) -> bool:
    """Whether what is left to be written behind a state has room in so many frames."""
    return frames >= least_frames(states[place + 1 + place % 2 :][::2]) + _held(states, place)


def _following(states: Sequence[Any], place: int) -> range:
    """The states that may come after one."""
    steps = 1 if _held(states, place) else 1 + place % 2
    return range(place, min(place + steps, len(states) - 1) + 1)


def _held(states: Sequence[Any], place: int) -> bool:
    """Whether a blank must come next: after a symbol that comes again."""
    return bool(place % 2) and place + 2 < len(states) and states[place] == states[place + 2]
