"""What lies at a path, in a page: a picture or a clip to be seen, a recording to be heard."""

from __future__ import annotations

from transduce.pages.images import image, picture
from transduce.pages.markup import Markup, element
from transduce.pages.sounds import sound

LEAST = 96  # pixels: smaller pictures are shown some times as large


def shown(path: str) -> Markup:
    """The picture or the recording, small and inside the page, with its name; the name alone where there is none."""
    found = picture(path)
    drawn = sound(path) if found is None else image(found, path, max(1, LEAST // max(found.size)))
    if drawn is None:
        return element("small", path, class_="faint")
    return element("figure", drawn, element("figcaption", path))
