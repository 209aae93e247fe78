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
    """A word of an object's name, the ``part``-th of it, and whether the strongest attention to any one place as it
    was written was inside the object's box."""

    part: int
    inside: bool


def pointed(found: Gaze, objects: Iterable[Named], margin: float = 0.0) -> list[Pointed]:
    """The words that name an object which is there, wherever it is named; what is named and is not there has no place.

    A place is inside a box where its middle is, or no further off than ``margin``, a fraction of the picture's sides.
    Tokens are words.
    """
    strongest, answers = found.strongest(), []
    for each in objects:
        for start in _places(found.tokens, each.words.split()):
            for part in range(len(each.words.split())):
                _, looked = strongest[start + part]
                answers.append(Pointed(part, inside(looked, each.box, margin)))
    return answers


def pointing(
    transducer: Transducer, pictures: Iterable[tuple[str, Sequence[Named]]], margin: float = 0.0
) -> Iterator[list[Pointed]]:
    """For each picture, by its path and its objects, how the model's own output points at them."""
    for path, objects in pictures:
        yield pointed(gaze(transducer, path), objects, margin)


def inside(looked: Box, box: Box, margin: float = 0.0) -> bool:
    """Whether the middle of a place lies in a box, or no further from it than the margin."""
    left, top, right, bottom = looked
    x, y = (left + right) / 2, (top + bottom) / 2
    return box[0] - margin <= x <= box[2] + margin and box[1] - margin <= y <= box[3] + margin


def _places(tokens: Sequence[str], words: Sequence[str]) -> list[int]:
    """Where the words stand in a row."""
    last = len(tokens) - len(words)
    return [start for start in range(last + 1) if list(tokens[start : start + len(words)]) == list(words)]
