"""Whether a model looks at what it names: the places of named objects against where its attention was."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from transduce.inspect.gaze import Gaze, gaze
from transduce.transducer import Transducer

Box = tuple[float, ...]  # left, top, right and bottom


@dataclass(frozen=True)
class Named:
    """An object by its ``words``, "small red circle", and its box, as fractions of the picture."""

    words: str
    box: Box


@dataclass(frozen=True)
class Pointed:
    """A word of an object's name, the ``part``-th of it, and how far ``off`` the object's box the place was that had
    the strongest attention as it was written: 0 inside, else a fraction of the picture's sides."""

    part: int
    off: float

    @property
    def inside(self) -> bool:
        return not self.off


def pointed(found: Gaze, objects: Iterable[Named]) -> list[Pointed]:
    """The words that name an object which is there, wherever it is named; what is named and is not there has no place.

    A place is where its middle is. Tokens are words.
    """
    strongest, answers = found.strongest(), []
    for each in objects:
        for start in _places(found.tokens, each.words.split()):
            for part in range(len(each.words.split())):
                _, looked = strongest[start + part]
                answers.append(Pointed(part, distance(looked, each.box)))
    return answers


def pointing(transducer: Transducer, pictures: Iterable[tuple[str, Sequence[Named]]]) -> Iterator[list[Pointed]]:
    """For each picture, by its path and its objects, how the model's own output points at them."""
    for path, objects in pictures:
        yield pointed(gaze(transducer, path), objects)


def distance(looked: Box, box: Box) -> float:
    """How far the middle of a place is from a box, across or down, whichever is more; 0 inside."""
    left, top, right, bottom = looked
    x, y = (left + right) / 2, (top + bottom) / 2
    return max(0.0, box[0] - x, x - box[2], box[1] - y, y - box[3])


def _places(tokens: Sequence[str], words: Sequence[str]) -> list[int]:
    """Where the words stand in a row."""
    last = len(tokens) - len(words)
    return [start for start in range(last + 1) if list(tokens[start : start + len(words)]) == list(words)]
