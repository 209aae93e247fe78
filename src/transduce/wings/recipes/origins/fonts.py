"""Fonts to draw text with: matplotlib's own, or a user's folder."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.data.corpora import DataError
from transduce.data.origins import package
from transduce.wings.recipes.origins.album import pillow

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont

FAMILIES = ("DejaVu*.ttf", "STIXGeneral*.ttf")  # of matplotlib's; the others have letters at private code points
NOBODY = "\U0010ffff"  # not a character: a font draws it as its sign for missing characters


def fonts(folder: str | None = None) -> list[Path]:
    """Font files sorted by path: the .ttf and .otf files in a ``folder`` and below it, otherwise matplotlib's text
    fonts.

    Raises DataError if the folder has no fonts or, without a folder, if matplotlib is missing. Its code is not run.
    """
    if folder is not None:
        own = sorted(path for path in Path(folder).expanduser().rglob("*") if path.suffix.lower() in (".ttf", ".otf"))
        if not own:
            raise DataError(f"fonts = {folder!r}: there is no .ttf and no .otf file in this folder")
        return own
    place = Path(str(package("matplotlib", "plots").locate_file("matplotlib/mpl-data/fonts/ttf")))
    return sorted(path for family in FAMILIES for path in place.glob(family))


@lru_cache(maxsize=256)
def font(path: Path, size: int) -> FreeTypeFont:
    """A Pillow font with letters about ``size`` pixels high. Raises DataError if the file is no font, and
    MissingPackageError without Pillow.
    """
    try:
        found: FreeTypeFont = pillow("ImageFont").truetype(str(path), size)
    except OSError as error:
        raise DataError(f"{path} is not a font that can be read: {error}") from error
    return found


def lacking(path: Path, characters: Iterable[str]) -> set[str]:
    """The ``characters`` that a font cannot draw. White space is never among them."""
    drawn = font(path, 24)
    missing = _shape(drawn, NOBODY)
    return {each for each in set(characters) if not each.isspace() and _shape(drawn, each) in (missing, None)}


def _shape(drawn: FreeTypeFont, character: str) -> tuple[object, bytes] | None:
    """The size and the pixels of a drawn character; None if nothing is visible."""
    mask = drawn.getmask(character)
    return (mask.size, bytes(mask)) if mask.getbbox() else None
