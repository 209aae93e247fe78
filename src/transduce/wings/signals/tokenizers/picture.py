"""Pictures, column by column. S columns, C channels, H rows of pixels.

A step has D = C * H numbers. Number c * H + y is the pixel of channel c in row y from the top.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from transduce.data.corpora import DataError
from transduce.data.tokenizers.signal_files import SignalError, Steps, lacking, regular
from transduce.wings.signals.tokenizers.tokenizer import SignalTokenizer, learned

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels = NDArray[np.float32]
FIRST_SIDEWAYS = 5  # EXIF's orientations 5 to 8 exchange width and height
LARGEST = 2**24  # 16 million pixels, whatever the header of a small file says


@dataclass(frozen=True)
class Picture:
    """Pictures (PNG, JPEG, ...) as sequences of columns, resized to ``height``.

    The width keeps the proportions unless ``width`` is given. Pixels are 0 to 1, or 1 to 0 with ``invert``, which makes
    ink on paper bright. There are 1 (grey) or 3 ``channels``. ``normalisation`` makes each channel have mean 0 and
    standard deviation 1: over the picture ("picture"), over the training set ("corpus"), or not at all ("none"). It
    divides by at least 0.001. Transparent pixels become white. The first picture of a file is read. The camera's
    orientation is respected. Lengths count columns. A picture with more than ``pixels`` pixels is unreadable, and is
    not decoded. So is one that would have more after resizing. Raises DataError for a value that is not allowed.
    """

    height: int = 32
    width: int | None = None
    channels: Literal[1, 3] = 1
    invert: bool = False
    normalisation: Literal["picture", "corpus", "none"] = "none"
    pixels: int = LARGEST

    signal = True
    tokenizer = SignalTokenizer
    spectral = False
    bands = False

    def __post_init__(self) -> None:
        check_size(self.height, self.width, self.channels)
        if self.normalisation not in ("picture", "corpus", "none"):
            raise DataError(f'normalisation = "{self.normalisation}": expected "picture", "corpus" or "none"')

    def learn(self, texts: Iterable[str]) -> SignalTokenizer:
        return learned(self, texts)

    @property
    def size(self) -> int:
        """The count of numbers of a channel in a step: the pixels of a column."""
        return self.height

    def read(self, path: str) -> Steps:
        """The picture in a file, [S, C * H], not normalised. Raises SignalError if it is unreadable."""
        with opened(path) as image:
            pixels_HWC = resized(image, path, self.height, self.width, self.channels, self.pixels)
        if self.invert:
            pixels_HWC = 1 - pixels_HWC
        return pixels_HWC.transpose(1, 2, 0).reshape(pixels_HWC.shape[1], -1)

    def place(self, step: int) -> str:
        return f"column {step}"


def check_size(height: int, width: int | None, channels: int) -> None:
    """Raises DataError if pictures cannot have this size or these channels."""
    if height < 1 or (width is not None and width < 1):
        raise DataError(f"height = {height}, width = {width}: a picture has at least one pixel")
    if channels not in (1, 3):
        raise DataError(f"channels = {channels}: pictures are read as 1 channel (grey) or 3 (red, green, blue)")


@contextmanager
def opened(path: str) -> Iterator[Image]:
    """A context with Pillow's image of the file ``path``. The pixels are decoded when they are first read.

    Raises DataError, which names the extra to install, without Pillow. While the image is open, any other exception
    than DataError becomes SignalError, because a decoder may raise anything for a broken file.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise lacking("pillow", "vision") from error
    file = regular(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # our own limit applies instead
            image = Image.open(file)
        with image:
            yield image
    except DataError:
        raise
    except Exception as error:  # a decoder may raise anything for a broken file
        raise SignalError(path, f"is not a picture that can be read: {error}") from error


def resized(image: Image, path: str, height: int, width: int | None, channels: int, largest: int) -> Pixels:
    """The pixels [height, width, channels] of an open picture, from 0 to 1, resized and turned upright. A transparent
    picture gets a white background. If ``width`` is None, the proportions stay.

    Raises SignalError if the picture has, or would have, more than ``largest`` pixels. The picture is decoded after
    this check, unless only the decoded picture tells that the camera was held sideways. ``path`` names the picture in
    messages.
    """
    from PIL import Image, ImageOps

    if image.width * image.height > largest:
        raise SignalError(path, f"has {image.width} x {image.height} pixels, more than pixels = {largest} of the unit")

    def checked_width(upright: tuple[int, int]) -> int:
        wide = width or max(1, round(upright[0] * height / upright[1]))
        if wide * height > largest:
            raise SignalError(path, f"would have {wide} x {height} pixels, more than pixels = {largest} of the unit")
        return wide

    checked_width(_upright_size(image))
    upright = ImageOps.exif_transpose(image)
    wide = checked_width(upright.size)
    flat = _flat(upright, "L" if channels == 1 else "RGB")
    if flat.size != (wide, height):
        flat = flat.resize((wide, height), Image.Resampling.BILINEAR)
    return (np.asarray(flat, np.float32) / np.float32(255)).reshape(height, wide, channels)


def _upright_size(image: Image) -> tuple[int, int]:
    """Width and height of the picture when it is turned upright, if the file's header tells its orientation; otherwise
    its stored width and height. Decodes nothing.
    """
    from PIL.ExifTags import Base

    sideways = "exif" in image.info and image.getexif().get(Base.Orientation, 1) >= FIRST_SIDEWAYS
    return (image.height, image.width) if sideways else image.size


def _flat(image: Image, mode: str) -> Image:
    """The picture in Pillow's ``mode`` "L" or "RGB", 8 bits each, on a white background if it is transparent."""
    from PIL import Image

    if image.mode.startswith("I"):  # 16 bits, which Pillow would clip at 255
        image = Image.fromarray((np.asarray(image, np.int64).clip(0, 65535) >> 8).astype(np.uint8))
    if "A" in image.getbands() or "transparency" in image.info:
        over = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", over.size, "white"), over)
    return image.convert(mode)
