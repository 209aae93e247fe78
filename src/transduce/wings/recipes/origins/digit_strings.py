"""Strings of handwritten digits, set side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from transduce.data.base import Split
from transduce.data.corpora import DataError, Splits
from transduce.data.origins import held_out
from transduce.wings.recipes.origins.album import Bytes, Entry, albums
from transduce.wings.recipes.origins.chance import Chance, chance_of
from transduce.wings.recipes.origins.mnist import Mnist


@dataclass(frozen=True)
class DigitStrings:
    """Pictures of strings of ``shortest`` to ``longest`` handwritten digits, such as "3141", white on black.

    The digits are pictures of MNIST, read by the origin ``mnist``; ``folder`` is as there. The strings of a split have
    digits of the same split of MNIST alone, so no digit of a test string occurs in training. Each digit is cut to the
    columns that have ink. ``gap`` is the least and the most distance between the ink of two neighbours, in pixels; a
    negative distance lets neighbours overlap, and the brighter pixel wins. A digit begins at least one column after
    the one before it. Each digit moves up or down by up to
    ``shift`` pixels, so a picture is 28 + 2 * ``shift`` pixels high. Zero to eight empty columns stand before and after
    a string. ``strings`` are for training; valid and test have a tenth of that each, at least 100. The same ``seed``
    gives the same strings. Raises DataError for a value that is not allowed.
    """

    strings: int = 20_000
    shortest: int = 3
    longest: int = 6
    gap: tuple[int, int] = (-3, 8)
    shift: int = 2
    seed: int = 1
    folder: str | None = None

    def __post_init__(self) -> None:
        if self.strings < 1:
            raise DataError(f"strings = {self.strings}: at least one is needed to learn from")
        if not 1 <= self.shortest <= self.longest:
            raise DataError(f"shortest = {self.shortest}, longest = {self.longest}: a string has a digit at least")
        if self.gap[0] > self.gap[1]:
            raise DataError(f"gap = {list(self.gap)}: expected pixels, the least and the most")
        if self.shift < 0:
            raise DataError(f"shift = {self.shift}: expected 0 pixels or more")

    def prepare(self, folder: Path) -> Splits:
        mnist = Mnist(self.folder)
        return albums(folder / mnist.fingerprint, lambda split: self._entries(split, *mnist.read(split)))

    def _entries(self, split: Split, images: Bytes, labels: Bytes) -> Iterator[Entry]:
        for number in range(self.strings if split == "train" else held_out(self.strings)):
            chance = chance_of(self.seed, split, number)
            length = int(chance.integers(self.shortest, self.longest + 1))
            chosen = chance.integers(len(images), size=length)
            yield Entry(self._joined(images[chosen], chance), "".join(map(str, labels[chosen])))

    def _joined(self, digits: Bytes, chance: Chance) -> Bytes:
        """One picture [28 + 2 * shift, W] of the digits [n, 28, 28]."""
        parts = [_cut(digit) for digit in digits]
        gaps = chance.integers(self.gap[0], self.gap[1] + 1, size=len(parts) - 1)
        before, after = chance.integers(MARGIN + 1, size=2)
        tops = chance.integers(2 * self.shift + 1, size=len(parts))
        widths = np.array([part.shape[1] for part in parts])
        starts = before + np.concatenate([[0], np.cumsum(np.maximum(widths[:-1] + gaps, 1))])
        height = digits.shape[1]
        joined = np.zeros((height + 2 * self.shift, int((starts + widths).max()) + int(after)), np.uint8)
        for part, top, start in zip(parts, tops, starts, strict=True):
            place = joined[top : top + height, start : start + part.shape[1]]
            np.maximum(place, part, out=place)
        return joined


MARGIN = 8  # the most empty columns before and after a string


def _cut(digit: Bytes) -> Bytes:
    """The columns of a digit from the first to the last one that has ink. A picture without ink stays whole."""
    inked = np.flatnonzero(digit.any(0))
    return digit[:, inked[0] : inked[-1] + 1] if len(inked) else digit
