"""Alignments of an output with the frames of a source: a symbol or the blank for each frame."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any, TypeVar

T = TypeVar("T")


def collapse(path: Iterable[T], blank: object = 0) -> tuple[T, ...]:
    """The output of an alignment: merges repetitions, then removes blanks (Graves et al. 2006, section 3.1)."""
    return tuple(symbol for symbol, _ in groupby(path) if symbol != blank)


def least_frames(output: Sequence[object]) -> int:
    """The smallest number of frames that an output needs: one per symbol, and one per blank between two equal
    neighbours.
    """
    return len(output) + sum(1 for left, right in pairwise(output) if left == right)


def count(output: Sequence[object], frames: int) -> int:
    """The number of alignments of ``frames`` frames with ``output``: C(frames + n - r, 2n).

    n is the number of symbols, and r of them equal the symbol before.
    """
    if frames == 0:
        return int(not output)
    return math.comb(frames + 2 * len(output) - least_frames(output), 2 * len(output))


def alignments(output: Sequence[T], frames: int, blank: Any = 0) -> Iterator[tuple[T, ...]]:
    """Yields every alignment of ``frames`` frames with ``output``.

    Their number is ``count``; list them only for short inputs.
    """
    states = [blank, *(each for symbol in output for each in (symbol, blank))]
    if frames == 0 and not output:
        yield ()
    for first in range(min(2, len(states))):
        for path in _ways(states, first, frames):
            yield tuple(states[place] for place in path)


def _ways(states: Sequence[object], first: int, frames: int) -> Iterator[tuple[int, ...]]:
    """Yields the paths of ``frames`` frames that start in the state ``first``, as indices of states. It does not
    recurse, because a path is as deep as its frames.
    """
    path: list[int] = []
    choices = [iter((first,))]  # one more than the places of the path
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


def _fits(states: Sequence[object], place: int, frames: int) -> bool:
    """True if the symbols after the state ``place`` fit into ``frames`` more frames."""
    return frames >= least_frames(states[place + 1 + place % 2 :][::2]) + _held(states, place)


def _following(states: Sequence[object], place: int) -> range:
    """The states that may follow the state ``place``, itself included."""
    steps = 1 if _held(states, place) else 1 + place % 2
    return range(place, min(place + steps, len(states) - 1) + 1)


def _held(states: Sequence[object], place: int) -> bool:
    """True if a blank must follow the state ``place``, because the next symbol is the same."""
    return bool(place % 2) and place + 2 < len(states) and states[place] == states[place + 2]
