"""Pointing: whether a model attends to the objects that it names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from transduce.wings.looking.inspection.signal_attention import SignalAttention

Box = tuple[float, ...]  # left, top, right and bottom


@dataclass(frozen=True)
class Named:
    """An object in a picture: its ``words``, such as "small red circle", and its ``box``.

    The box has left, top, right and bottom as fractions of the picture's width and height.
    """

    words: str
    box: Box


@dataclass(frozen=True)
class Pointed:
    """One word of an object's name. ``part`` is the word's index in the name, from 0.

    ``off`` is the distance between the object's box and the strongest attention just before the word was written. It is
    0 inside the box, otherwise a fraction of the picture's sides.
    """

    part: int
    off: float

    @property
    def inside(self) -> bool:
        return not self.off


def pointed(found: SignalAttention, objects: Iterable[Named], deviation: float = 0.0) -> list[Pointed]:
    """One entry for each word of each occurrence of an object's name in the output, object by object.

    Objects whose names do not occur in the output give nothing. ``deviation`` smooths the attention first
    (``SignalAttention.peaks``). The model's tokens must be words.
    """
    peaks, answers = found.peaks(deviation), []
    for each in objects:
        for start in _places(found.tokens, each.words.split()):
            for part in range(len(each.words.split())):
                answers.append(Pointed(part, distance(peaks[start + part], each.box)))
    return answers


def distance(point: tuple[float, float], box: Box) -> float:
    """The distance from a point (x, y) to a box: the larger of the horizontal and the vertical distance; 0 inside."""
    (x, y), (left, top, right, bottom) = point, box
    return max(0.0, left - x, x - right, top - y, y - bottom)


def _places(tokens: Sequence[str], words: Sequence[str]) -> list[int]:
    """The indices where ``words`` occur in ``tokens``."""
    last = len(tokens) - len(words)
    return [start for start in range(last + 1) if list(tokens[start : start + len(words)]) == list(words)]
