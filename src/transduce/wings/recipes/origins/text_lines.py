"""Rendered lines of text, in any number, for text recognition."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from transduce.core.files import name_from
from transduce.core.text_files import read_text
from transduce.data.base import SPLITS, Split
from transduce.data.corpora import DataError, Splits
from transduce.data.origins import different, held_out
from transduce.wings.pages.direction import from_right
from transduce.wings.recipes.origins.album import Bytes, Entry, albums, pillow
from transduce.wings.recipes.origins.chance import Chance, chance_of, one
from transduce.wings.recipes.origins.fonts import font, fonts, lacking
from transduce.wings.recipes.origins.misspellings import frequent
from transduce.wings.signals.page_order import Direction

COMMON = 10_000  # most frequent English words
MARKS = (".", ",", "!", "?", ";", ":")
Texts = dict[Split, list[str]]


@dataclass(frozen=True)
class TextLines:
    """Pictures of text lines, ``height`` pixels high and as wide as their text, and the texts.

    A line has up to ``words`` frequent English words (from the PyPI package ``pyspellchecker``). Some are capitalised,
    followed by a punctuation mark, or replaced by a number. If the file ``text`` is given, a line is a passage of up to
    ``words`` words from it, unchanged except for white space, which becomes single spaces. If most of its letters run
    from right to left, as in Hebrew and Arabic, so do the lines. Each line has a random font
    of ``fonts`` (matplotlib's, or a folder's) that has its characters, a rotation of up to ``tilt`` degrees to either
    side, a random size and brightness, a blur of up to ``blur`` pixels, and noise. ``noise`` is its largest standard
    deviation, where white minus black is 1. No line is in two splits. ``pairs`` are for training; valid and test have a
    tenth of that each, at least 100. The same ``seed`` gives the same lines. Raises DataError for a value that is not
    allowed; ``prepare`` does if there are too few different lines, if no font has all characters of a line, or if
    Pillow cannot draw from right to left.
    """

    pairs: int = 10_000
    words: int = 3
    text: str | None = None
    fonts: str | None = None
    height: int = 32
    tilt: float = 1.5
    blur: float = 0.8
    noise: float = 0.08
    seed: int = 1

    def __post_init__(self) -> None:
        if self.pairs < 1 or self.words < 1:
            raise DataError(f"pairs = {self.pairs}, words = {self.words}: at least one line, of at least one word")
        if self.height < 8:
            raise DataError(f"height = {self.height}: letters cannot be told on fewer than 8 pixels")
        for name in ("tilt", "blur", "noise"):
            if not 0 <= getattr(self, name) < math.inf:
                raise DataError(f"{name} = {getattr(self, name)}: expected 0, for none, or more")

    def prepare(self, folder: Path) -> Splits:
        texts, files = self._texts(), fonts(self.fonts)
        return albums(folder / name_from((texts, files)), lambda split: self._entries(split, texts, files))

    def _entries(self, split: Split, texts: Texts, files: list[Path]) -> Iterator[Entry]:
        alphabet = {character for text in texts[split] for character in text}
        missing = {path: lacking(path, alphabet) for path in files}
        direction = _direction(alphabet, self._words())
        for number, text in enumerate(texts[split]):
            able = [path for path in files if missing[path].isdisjoint(text)]
            if not able:
                raise DataError(
                    f"no font has all characters of {text!r}: name a folder of fonts that do, or another text"
                )
            yield Entry(self._drawn(text, able, direction, chance_of(self.seed, split, number)), text)

    # ------------------------------------------------------------------- text

    def _texts(self) -> Texts:
        """The lines of each split. No two lines are equal, also in different splits."""
        chance = np.random.default_rng(self.seed)
        sizes = [self.pairs, held_out(self.pairs), held_out(self.pairs)]
        words = self._words()
        what = f"lines of at most {self.words} words"
        found = different(sum(sizes), what, lambda: self._line(words, chance))
        ends = np.cumsum(sizes)
        return {split: found[end - size : end] for split, size, end in zip(SPLITS, sizes, ends, strict=True)}

    def _words(self) -> list[str]:
        if self.text is None:
            return frequent()[:COMMON]
        words = read_text(Path(self.text).expanduser()).split()
        if not words:
            raise DataError(f"text = {self.text!r} is empty: there is nothing to draw")
        return words

    def _line(self, words: list[str], chance: Chance) -> str:
        count = int(chance.integers(1, self.words + 1))
        if self.text is not None:
            start = int(chance.integers(max(1, len(words) - count + 1)))
            return " ".join(words[start : start + count])
        return " ".join(_varied(one(words, chance), chance) for _ in range(count))

    # ---------------------------------------------------------------- picture

    def _drawn(self, text: str, able: list[Path], direction: Direction | None, chance: Chance) -> Bytes:
        """The picture of a text, [H, W]: dark ink on lighter paper, in a random font of ``able``."""
        ink = self._ink(text, one(able, chance), direction, chance)
        paper, dark = chance.uniform(0.75, 1.0), chance.uniform(0.0, 0.4)
        values_HW = paper + (dark - paper) * np.asarray(ink, dtype=np.float64) / 255
        values_HW += chance.normal(0.0, 1.0, values_HW.shape) * chance.uniform(0.0, self.noise)
        return (values_HW.clip(0, 1) * 255).round().astype(np.uint8)

    def _ink(self, text: str, path: Path, direction: Direction | None, chance: Chance) -> object:
        """Pillow's picture of the text, white on black, ``height`` pixels high: drawn at about twice the height,
        rotated, cropped, reduced, placed at random and blurred.
        """
        image, draw = pillow(), pillow("ImageDraw")
        large = font(path, 2 * self.height)
        left, top, right, bottom = large.getbbox(text, direction=direction)
        room = self.height  # margin at the sides, so that rotation cuts off no letter
        drawn = image.new("L", (int(right - left) + 2 * room, int(bottom - top) + 2 * room))
        draw.Draw(drawn).text((room - left, room - top), text, fill=255, font=large, direction=direction)
        drawn = drawn.rotate(chance.uniform(-self.tilt, self.tilt), image.Resampling.BILINEAR)
        drawn = drawn.crop(drawn.getbbox())
        # A line without tall letters is not enlarged: the scale is that of the font, or of the rotated line if larger.
        tallest = max(sum(large.getmetrics()), drawn.height)
        scale = self.height * chance.uniform(0.75, 1.0) / tallest
        size = max(1, round(drawn.width * scale)), max(1, round(drawn.height * scale))
        drawn = drawn.resize(size, image.Resampling.LANCZOS)
        before, behind = chance.integers(1, self.height // 4 + 1, 2)
        line = image.new("L", (int(before) + drawn.width + int(behind), self.height))
        line.paste(drawn, (int(before), int(chance.integers(self.height - drawn.height + 1))))
        return line.filter(pillow("ImageFilter").GaussianBlur(chance.uniform(0.0, self.blur)))


def _direction(alphabet: set[str], words: list[str]) -> Direction | None:
    """The direction of the page that the words fill; None if no letter runs from right to left. Raises DataError if
    Pillow cannot draw such letters.
    """
    if not any(unicodedata.bidirectional(letter) in ("R", "AL", "AN") for letter in alphabet):
        return None
    if not pillow("features").check("raqm"):
        raise DataError(
            "Pillow cannot draw letters that run from right to left here: install FriBiDi (libfribidi0 on Debian), "
            "which its library Raqm needs"
        )
    return "rtl" if from_right(words) else "ltr"


def _varied(word: str, chance: Chance) -> str:
    """Returns a word changed at random, as texts vary: one in twenty becomes a number, one in five of the others gets a
    capital, and one in ten of all gets a punctuation mark after it.
    """
    if chance.random() < 0.05:
        word = str(int(chance.integers(10 ** int(chance.integers(1, 5)))))
    elif chance.random() < 0.2:
        word = word.capitalize()
    return word + (one(MARKS, chance) if chance.random() < 0.1 else "")
