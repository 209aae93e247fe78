"""Coloured shapes and digits on a dark background, for scenes and clips.

Coordinates are in pixels, x to the right and y down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from transduce.wings.recipes.origins.album import Bytes, pillow
from transduce.wings.recipes.origins.fonts import font, fonts

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

COLOURS = {
    "red": (226, 52, 52),
    "green": (52, 186, 74),
    "blue": (62, 104, 240),
    "yellow": (240, 214, 50),
    "purple": (168, 70, 214),
    "white": (240, 240, 240),
    "cyan": (56, 208, 214),
    "orange": (240, 140, 36),
}
SHAPES = ("circle", "square", "triangle", "cross", "diamond", "bar")
DIGITS = tuple("0123456789")
GROUND = (24, 26, 34)
FINE = 4  # drawn larger by this factor and reduced, for smooth edges
BOLD, TALL = "DejaVuSans-Bold", 0.73  # the font of the digits, and their height as a share of the font size


@dataclass(frozen=True)
class Thing:
    """A shape or a digit, in a colour of ``COLOURS``, with its centre and ``reach``, the distance from the centre to
    the edge, in pixels.
    """

    shape: str
    colour: str
    x: float
    y: float
    reach: float

    @property
    def box(self) -> tuple[float, float, float, float]:
        """The box around the thing: left, top, right and bottom, in pixels."""
        return self.x - self.reach, self.y - self.reach, self.x + self.reach, self.y + self.reach


def picture(things: Sequence[Thing], size: int) -> Bytes:
    """The picture [size, size, 3], as bytes, of the things on a dark background. Later things cover earlier ones."""
    image = pillow()
    drawn = image.new("RGB", (FINE * size, FINE * size), GROUND)
    pen = pillow("ImageDraw").Draw(drawn)
    for thing in things:
        _draw(pen, thing)
    return np.asarray(drawn.resize((size, size), image.Resampling.BOX))


def _draw(pen: ImageDraw, thing: Thing) -> None:
    left, top, right, bottom = (FINE * edge for edge in thing.box)
    colour = COLOURS[thing.colour]
    if thing.shape == "circle":
        pen.ellipse((left, top, right - 1, bottom - 1), fill=colour)
    elif thing.shape == "square":
        pen.rectangle((left, top, right - 1, bottom - 1), fill=colour)
    elif thing.shape == "triangle":
        pen.polygon([((left + right) / 2, top), (right - 1, bottom - 1), (left, bottom - 1)], fill=colour)
    elif thing.shape == "diamond":
        x, y = (left + right) / 2, (top + bottom) / 2
        pen.polygon([(x, top), (right - 1, y), (x, bottom - 1), (left, y)], fill=colour)
    elif thing.shape == "bar":
        quarter = (bottom - top) / 4
        pen.rectangle((left, top + quarter, right - 1, bottom - quarter - 1), fill=colour)
    elif thing.shape == "cross":
        third = (right - left) / 3
        pen.rectangle((left + third, top, right - third - 1, bottom - 1), fill=colour)
        pen.rectangle((left, top + third, right - 1, bottom - third - 1), fill=colour)
    else:
        _digit(pen, thing, (left + right) / 2, (top + bottom) / 2, colour)


def _digit(pen: ImageDraw, thing: Thing, x: float, y: float, colour: tuple[int, int, int]) -> None:
    """Draws a digit as high as the thing, at the thing's centre."""
    size = math.ceil(2 * FINE * thing.reach / TALL)
    pen.text((x, y), thing.shape, fill=colour, font=font(_bold(), size), anchor="mm")


@lru_cache
def _bold() -> Path:
    return next(path for path in fonts() if path.stem == BOLD)
