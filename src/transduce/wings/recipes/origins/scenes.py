"""Drawn scenes with known captions: objects and their relative positions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from transduce.data.base import Split
from transduce.data.corpora import DataError, Splits
from transduce.wings.recipes.origins.album import Entry, album, albums
from transduce.wings.recipes.origins.chance import Chance, chance_of, one
from transduce.wings.recipes.origins.shapes import COLOURS, SHAPES, Thing, picture

Kind = tuple[str, str]  # a colour and a shape

SIZES = {"small": 0.085, "large": 0.15}  # from the centre to the edge, as a share of the picture's side
SQUARES = 3  # squares a side; each holds at most one object
KINDS: tuple[Kind, ...] = tuple(itertools.product(COLOURS, SHAPES))
UNSEEN: dict[Split, tuple[Kind, ...]] = {
    "valid": (("red", "circle"), ("green", "square"), ("blue", "triangle"), ("yellow", "cross")),
    "test": (("purple", "circle"), ("white", "diamond"), ("cyan", "bar"), ("orange", "cross")),
}
"""Combinations that no training object has. Each colour and each shape occurs there in other combinations."""
SEEN = tuple(kind for kind in KINDS if kind not in UNSEEN["valid"] + UNSEEN["test"])


@dataclass(frozen=True)
class Scene:
    """The objects of a drawn picture, and the word for the size of each object, such as "small"."""

    things: tuple[Thing, ...]
    sizes: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The name of each object, such as ``small red circle``."""
        return [f"{size} {each.colour} {each.shape}" for size, each in zip(self.sizes, self.things, strict=True)]

    def relations(self, number: int, other: int) -> list[str]:
        """The clearly true relations of object ``number`` to object ``other``, both indices from 0: one of "left of"
        and "right of", one of "above" and "below", or one of each.

        An object far to the left and hardly higher is not "above".
        """
        this, that = self.things[number], self.things[other]
        across, down = abs(this.x - that.x), abs(this.y - that.y)
        found = []
        if across >= down / 2:
            found.append("left of" if this.x < that.x else "right of")
        if down >= across / 2:
            found.append("above" if this.y < that.y else "below")
        return found

    def captions(self) -> list[str]:
        """All true captions: the objects in any order, each but the last with one of its relations to the
        next object.
        """
        found, names = [], self.names
        for order in itertools.permutations(range(len(names))):
            steps = [self.relations(number, other) for number, other in itertools.pairwise(order)]
            for relations in itertools.product(*steps):
                links = [f" {relation} a {names[at]}" for relation, at in zip(relations, order[1:], strict=True)]
                found.append(f"a {names[order[0]]} is" + " which is".join(links))
        return found


@dataclass(frozen=True)
class Scenes:
    """Pictures of two to ``most`` objects, ``size`` pixels a side, with captions.

    A caption is "a small red circle is left of a large blue square which is above a small green cross". Objects have
    one of two sizes, eight colours and six shapes. No two objects of a scene are equal in all three, and each has its
    own square of a three by three grid. Several captions are true: training has a random one of them, the other splits
    have all. If ``unseen`` is True, each scene of valid and test has exactly one object whose colour and shape never
    occur together in training (``UNSEEN``; other combinations in valid than in test). The folder ``seen`` beside them
    is like test, without these objects. A picture's line in ``pairs.jsonl`` also has "objects": the words and the box
    of each (left, top, right, bottom, in pixels). ``pairs`` are for training, ``held_out`` for each other split. The
    same ``seed`` gives the same scenes. Raises DataError for a value that is not allowed.
    """

    pairs: int = 10_000
    held_out: int = 500
    most: Literal[2, 3] = 2
    size: int = 48
    unseen: bool = True
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("pairs", "held_out"):
            if getattr(self, name) < 1:
                raise DataError(f"{name} = {getattr(self, name)}: at least one is needed to learn from, and to try")
        if self.most not in (2, 3):
            raise DataError(f"most = {self.most}: a scene has two objects, or up to three")
        if self.size < 24:
            raise DataError(f"size = {self.size}: small shapes cannot be told on fewer than 24 pixels")

    def prepare(self, folder: Path) -> Splits:
        if self.unseen:
            album(folder / "seen", lambda: self._entries("seen", SEEN))
        return albums(folder, self._split)

    def _split(self, split: Split) -> Iterator[Entry]:
        if not self.unseen:
            return self._entries(split, KINDS)
        return self._entries(split, SEEN, UNSEEN.get(split, ()))

    def _entries(self, name: str, kinds: tuple[Kind, ...], unseen: tuple[Kind, ...] = ()) -> Iterator[Entry]:
        """Yields the pictures of one folder, whose name is ``name``, with objects of these ``kinds``. If ``unseen`` is
        given, one object of each scene is of one of its kinds instead.
        """
        for number in range(self.pairs if name == "train" else self.held_out):
            chance = chance_of(self.seed, name, number)
            scene = self._scene(kinds, unseen, chance)
            captions = scene.captions()
            boxes = [[round(edge, 1) for edge in thing.box] for thing in scene.things]
            objects = [{"words": words, "box": box} for words, box in zip(scene.names, boxes, strict=True)]
            target = one(captions, chance) if name == "train" else captions
            yield Entry(picture(scene.things, self.size), target, {"objects": objects})

    def _scene(self, kinds: tuple[Kind, ...], unseen: tuple[Kind, ...], chance: Chance) -> Scene:
        count = int(chance.integers(2, self.most + 1))
        drawn: dict[tuple[str, Kind], None] = {}
        while len(drawn) < count:
            drawn[one(tuple(SIZES), chance), one(unseen if unseen and not drawn else kinds, chance)] = None
        squares = chance.choice(SQUARES**2, count, replace=False)
        things = [self._thing(*each, int(square), chance) for each, square in zip(drawn, squares, strict=True)]
        return Scene(tuple(things), tuple(size for size, _ in drawn))

    def _thing(self, size: str, kind: Kind, square: int, chance: Chance) -> Thing:
        """An object of this size and kind at a random place in a square of the grid, whose index is ``square``. The
        object does not leave its square.
        """
        reach, side = SIZES[size] * self.size, self.size / SQUARES
        off_x, off_y = chance.uniform(reach - side / 2, side / 2 - reach, 2)
        colour, shape = kind
        x, y = (square % SQUARES + 0.5) * side + off_x, (square // SQUARES + 0.5) * side + off_y
        return Thing(shape, colour, float(x), float(y), reach)
