"""Pictures inside a page: small, and embedded in the HTML file."""

from __future__ import annotations

import base64
import io
import warnings
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.wings.pages.markup import Markup, element

if TYPE_CHECKING:
    from PIL.Image import Image

LARGEST = 2**24  # pixels; a file whose header says more, over all its frames, is not opened
FRAMES = 12  # most frames of a clip, side by side


def picture(path: str | Path, longest: int = 320) -> Image | None:
    """The picture in a file, reduced if a side is longer than ``longest`` pixels. It is never enlarged.

    A clip gives at most 12 of its frames, evenly spaced, side by side, with the same limit for the whole row. Returns
    None if the file is no readable picture, if it has more than 2^24 pixels in all frames, or if Pillow is not
    installed.
    """
    try:
        from PIL import Image, ImageSequence
    except ImportError:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # our own limit applies instead
            with Image.open(path) as found:
                count = getattr(found, "n_frames", 1)
                if found.width * found.height * count > LARGEST:
                    return None
                step = -(-count // FRAMES)
                frames = [each.convert("RGB") for each in islice(ImageSequence.Iterator(found), 0, None, step)]
    except Exception:  # a decoder may raise anything for a broken file
        return None
    return _row(frames, longest)


def image(pixels: Image, about: str, scale: int = 1) -> Markup:
    """An HTML image element with the pixels inside, shown ``scale`` times as large without smoothing.

    ``about`` is the text for readers who cannot see the picture.
    """
    file = io.BytesIO()
    pixels.convert("RGB").save(file, "PNG")
    data = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
    sharp = {"style": "image-rendering: pixelated"} if scale > 1 else {}
    return element("img", src=data, alt=about, width=scale * pixels.width, height=scale * pixels.height, **sharp)


def _row(frames: list[Image], longest: int) -> Image:
    """The frames side by side with small gaps, in a row of at most about ``longest`` pixels. Reduces the frames in
    place.
    """
    from PIL import Image

    gap = 2 if len(frames) > 1 else 0
    for each in frames:
        each.thumbnail((max(1, longest // len(frames) - gap), longest))
    if len(frames) == 1:
        return frames[0]
    wide, high = frames[0].size
    row = Image.new("RGB", (len(frames) * (wide + gap) - gap, high), "white")
    for number, each in enumerate(frames):
        row.paste(each, (number * (wide + gap), 0))
    return row
