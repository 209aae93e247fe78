"""Fonts to draw text in: those that matplotlib brings, and a folder of the user's own."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from transduce.data.corpora import DataError
from transduce.recipes.origins.album import pillow
from transduce.recipes.origins.base import package

FAMILIES = ("DejaVu*.ttf", "STIXGeneral*.ttf")  # of matplotlib's; the others keep their letters at places of their own
NOBODY = "\U0010ffff"  # no character: drawn as what a font has for those it lacks


def fonts(folder: str | None = None) -> list[Path]:
    """Font files by name: matplotlib's text fonts, or, where given, the .ttf and .otf files of a ``folder``.

    DataError where a folder has none, or without matplotlib, whose files alone are used.
    """
    if folder is not None:
        own = sorted(path for path in Path(folder).expanduser().rglob("*") if path.suffix.lower() in (".ttf", ".otf"))
        if not own:
            raise DataError(f"fonts = {folder!r}: there is no .ttf and no .otf file in this folder")
        return own
    place = Path(str(package("matplotlib", "plots").locate_file("matplotlib/mpl-data/fonts/ttf")))
    return sorted(path for family in FAMILIES for path in place.glob(family))


@lru_cache(maxsize=256)
def font(path: Path, size: int) -> Any:
    """A font of Pillow, its letters about ``size`` pixels high; DataError for a file that is none."""
    try:
        return pillow("ImageFont").truetype(str(path), size)
    except OSError as error:
        raise DataError(f"{path} is not a font that can be read: {error}") from error


def lacking(path: Path, characters: Iterable[str]) -> set[str]:
    """Those of the characters that a font has no picture of, or the one that says so."""
    drawn = font(path, 24)
    missing = _shape(drawn, NOBODY)
    return {each for each in set(characters) if not each.isspace() and _shape(drawn, each) in (missing, None)}


def _shape(drawn: Any, character: str) -> tuple[Any, bytes] | None:
    """Of a drawn character its size and pixels; None where nothing is seen."""
    mask = drawn.getmask(character)
    return (mask.size, bytes(mask)) if mask.getbbox() else None
