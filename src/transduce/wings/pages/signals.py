"""Signals inside a page: a picture, a clip, or a player for a recording."""

from __future__ import annotations

from transduce.wings.pages.images import image, picture
from transduce.wings.pages.markup import Markup, element
from transduce.wings.pages.sounds import sound

LEAST = 96  # pixels; smaller pictures are enlarged


def shown(path: str) -> Markup:
    """The picture, the clip or a player for the recording in a file, embedded in the page, with the path
    under it.

    Returns only the path, as markup, if the file is no readable signal.
    """
    found = picture(path)
    drawn = sound(path) if found is None else image(found, path, max(1, LEAST // max(found.size)))
    if drawn is None:
        return element("small", path, class_="faint")
    return element("figure", drawn, element("figcaption", path))
