"""Drawn clips with known captions: what moves, and in which directions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from transduce.data.base import Split
from transduce.data.corpora import DataError, Splits
from transduce.data.origins import held_out
from transduce.wings.recipes.origins.album import Bytes, Entry, albums
from transduce.wings.recipes.origins.chance import Chance, chance_of, one
from transduce.wings.recipes.origins.shapes import COLOURS, DIGITS, SHAPES, Thing, picture

WAYS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}
REACH = 0.14  # from the centre to the edge, as a share of the picture's side


@dataclass(frozen=True)
class Clips:
    """Clips of a shape or a digit that moves in several directions, ``size`` pixels wide and high, as
    animated PNG.

    ``target`` "caption" gives "a red square moves left, then up". ``target`` "labels" gives a word per frame: the
    direction to the next frame; the last frame repeats the direction before it. A clip has ``shortest`` to ``longest``
    frames and 1 to ``most`` directions, each for at least two steps from frame to frame. The thing moves in every step.
    A clip's line in ``pairs.jsonl`` always has both targets. ``pairs`` are for training; valid and test have a tenth of
    that each, at least 100. The same ``seed`` gives the same clips. Raises DataError for a value that is not allowed.
    """

    target: Literal["caption", "labels"] = "caption"
    pairs: int = 5_000
    most: int = 2
    shortest: int = 8
    longest: int = 12
    size: int = 32
    seed: int = 1

    def __post_init__(self) -> None:
        if self.target not in ("caption", "labels"):
            raise DataError(f'target = "{self.target}": of a clip there is a "caption", and there are "labels"')
        if self.pairs < 1 or self.most < 1:
            raise DataError(f"pairs = {self.pairs}, most = {self.most}: at least one clip, of at least one way")
        if not 2 * self.most < self.shortest <= self.longest:
            raise DataError(
                f"shortest = {self.shortest}, longest = {self.longest}: {self.most} ways of two frames each, and the "
                f"one they end in, take at least {2 * self.most + 1} frames; longest is no less"
            )
        if self.size < 16:
            raise DataError(f"size = {self.size}: digits cannot be told on fewer than 16 pixels")

    def prepare(self, folder: Path) -> Splits:
        return albums(folder, self._entries)

    def _entries(self, split: Split) -> Iterator[Entry]:
        for number in range(self.pairs if split == "train" else held_out(self.pairs)):
            chance = chance_of(self.seed, split, number)
            colour, shape = one(tuple(COLOURS), chance), one(SHAPES + DIGITS, chance)
            ways = self._ways(chance)
            told = [way for way, _ in itertools.groupby(ways)]
            known = {
                "caption": f"a {colour} {shape} moves {', then '.join(told)}",
                "labels": " ".join([*ways, ways[-1]]),
            }
            yield Entry(self._frames(colour, shape, ways, chance), known[self.target], known)

    def _ways(self, chance: Chance) -> list[str]:
        """The direction of each step from one frame to the next: one item fewer than frames. When the direction
        changes, the new one is not the opposite of the old one.
        """
        steps = int(chance.integers(self.shortest, self.longest + 1)) - 1
        turns = int(chance.integers(1, self.most + 1)) - 1
        # Different cuts of a row that is one step shorter per cut give directions of at least two frames.
        places = np.sort(chance.choice(steps - turns - 2, turns, replace=False))
        ends = [int(place) + 2 + number for number, place in enumerate(places)]
        chosen: list[str] = []
        for _ in range(turns + 1):
            chosen.append(
                one([way for way in WAYS if not chosen or WAYS[way][0] ** 2 != WAYS[chosen[-1]][0] ** 2], chance)
            )
        return [
            way
            for way, (begin, end) in zip(chosen, itertools.pairwise([0, *ends, steps]), strict=True)
            for _ in range(end - begin)
        ]

    def _frames(self, colour: str, shape: str, ways: list[str], chance: Chance) -> Bytes:
        """Draws the frames of a clip, [F, size, size, 3]: a thing that moves with constant speed. It starts at a random
        place from which it never leaves the picture.
        """
        path_F2 = np.cumsum([(0, 0), *(WAYS[way] for way in ways)], axis=0)
        low_2, high_2 = path_F2.min(0), path_F2.max(0)
        reach = REACH * self.size
        room = self.size - 2 * reach
        pace = min(2.0, room / max(1, int((high_2 - low_2).max())))
        start_2 = reach - pace * low_2 + chance.uniform(0, 1, 2) * (room - pace * (high_2 - low_2))
        places_F2 = start_2 + pace * path_F2
        return np.stack([picture([Thing(shape, colour, float(x), float(y), reach)], self.size) for x, y in places_F2])
