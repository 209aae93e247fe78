"""Whether a model looks at what it names: the places of named objects against where its attention was."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from transduce.inspect.signal_attention import SignalAttention

Box = tuple[float, ...]  # left, top, right and bottom


@dataclass(frozen=True)
class Named:
    """An object by its ``words``, "small red circle", and its box, as fractions of the picture."""

    words: str
    box: Box


@dataclass(frozen=True)
class Pointed:
    """A word of an object's name, the ``part``-th of it, and how far ``off`` the object's box attention was strongest
    as it was written: 0 inside, else a fraction of the picture's sides."""

    part: int
    off: float

    @property
    def inside(self) -> bool:
        return not self.off


def pointed(found: SignalAttention, objects: Iterable[Named], deviation: float = 0.0) -> list[Pointed]:
    """The words that name an object which is there, wherever it is named; what is named and is not there has no place.

    ``deviation`` smooths the attention first (``Gaze.peaks``). Tokens are words.
    """
    peaks, answers = found.peaks(deviation), []
    for each in objects:
        for start in _places(found.tokens, each.words.split()):
            for part in range(len(each.words.split())):
                answers.append(Pointed(part, distance(peaks[start + part], each.box)))
    return answers


def distance(point: tuple[float, float], box: Box) -> float:
    """How far a point is from a box, across or down, whichever is more; 0 inside."""
    (x, y), (left, top, right, bottom) = point, box
    return max(0.0, left - x, x - right, top - y, y - bottom)


def _places(tokens: Sequence[str], words: Sequence[str]) -> list[int]:
    """Where the words stand in a row."""
    last = len(tokens) - len(words)
    return [start for start in range(last + 1) if list(tokens[start : start + len(words)]) == list(words)]
