"""Pictures, column by column. S columns, C channels, H rows of pixels: a step has D = C * H numbers, number c * H + y
the pixel of channel c in row y from the top."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from transduce.data.corpora import DataError
from transduce.data.signals.files import SignalError, lacking, regular
from transduce.data.signals.tokenizer import SignalTokenizer, Steps, learned

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels = NDArray[np.float32]
LARGEST = 2**24  # pixels: 16 million, whatever a file of a few bytes says that it has


@dataclass(frozen=True)
class Picture:
    """Pictures (PNG, JPEG, ...) as sequences of columns, resized to a ``height``; their ``width`` follows, unless it is
    given too.

    Pixels are 0 to 1, or 1 to 0 with ``invert`` (ink on paper is then what is bright), in 1 channel (grey) or 3. They
    are normalised to mean 0 and standard deviation 1, each channel apart, of the picture itself ("picture"), of the
    training set ("corpus") or not ("none"). What is transparent is white; of several pictures in a file the first is
    read; a camera's note of how it was held is followed. Lengths count columns. A picture of more than ``pixels``, as
    it is or resized, is refused before it is decoded.
    """

    height: int = 32
    width: int | None = None
    channels: Literal[1, 3] = 1
    invert: bool = False
    normalisation: Literal["picture", "corpus", "none"] = "none"
    pixels: int = LARGEST

    signal = True
    spectral = False

    def __post_init__(self) -> None:
        check_size(self.height, self.width, self.channels)
        if self.normalisation not in ("picture", "corpus", "none"):
            raise DataError(f'normalisation = "{self.normalisation}": expected "picture", "corpus" or "none"')

    def learn(self, texts: Iterable[str]) -> SignalTokenizer:
        return learned(self, texts)

    @property
    def size(self) -> int:
        """Numbers of a channel in a step."""
        return self.height

    def read(self, path: str) -> Steps:
        """The picture at a path, [S, C * H]."""
        with opened(path) as image:
            pixels_HWC = resized(image, path, self.height, self.width, self.channels, self.pixels)
        if self.invert:
            pixels_HWC = 1 - pixels_HWC
        return pixels_HWC.transpose(1, 2, 0).reshape(pixels_HWC.shape[1], -1)

    def place(self, step: int) -> str:
        return f"column {step}"


def check_size(height: int, width: int | None, channels: int) -> None:
    """DataError unless pictures can have this size, and channels."""
    if height < 1 or (width is not None and width < 1):
        raise DataError(f"height = {height}, width = {width}: a picture has at least one pixel")
    if channels not in (1, 3):
        raise DataError(f"channels = {channels}: pictures are read as 1 channel (grey) or 3 (red, green, blue)")


@contextmanager
def opened(path: str) -> Iterator[Image]:
    """The picture at a path, decoded when it is used; SignalError for whatever goes wrong until the end of it."""
    try:
        from PIL import Image
    except ImportError as error:
        raise lacking("pillow", "vision") from error
    file = regular(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # there is a limit of our own
            image = Image.open(file)
        with image:
            yield image
    except DataError:
        raise
    except Exception as error:  # what broken files make of a decoder is anybody's guess
        raise SignalError(path, f"is not a picture that can be read: {error}") from error


def resized(image: Image, path: str, height: int, width: int | None, channels: int, largest: int) -> Pixels:
    """The pixels [height, width, channels] of a picture, 0 to 1; SignalError where it has, or would have, more than
    ``largest``."""
    from PIL import Image, ImageOps

    if image.width * image.height > largest:
        raise SignalError(path, f"has {image.width} x {image.height} pixels, more than pixels = {largest} of the unit")
    upright = ImageOps.exif_transpose(image)
    wide = width or max(1, round(upright.width * height / upright.height))
    if wide * height > largest:
        raise SignalError(path, f"would have {wide} x {height} pixels, more than pixels = {largest} of the unit")
    flat = _flat(upright, "L" if channels == 1 else "RGB")
    if flat.size != (wide, height):
        flat = flat.resize((wide, height), Image.Resampling.BILINEAR)
    return (np.asarray(flat, np.float32) / np.float32(255)).reshape(height, wide, channels)


def _flat(image: Image, mode: str) -> Image:
    """The picture in another mode, without its depth and without transparency, which is white."""
    from PIL import Image

    if image.mode.startswith("I"):  # 16 bits, which Pillow would cut off at 255
        image = Image.fromarray((np.asarray(image, np.int64).clip(0, 65535) >> 8).astype(np.uint8))
    if "A" in image.getbands() or "transparency" in image.info:
        over = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", over.size, "white"), over)
    return image.convert(mode)
