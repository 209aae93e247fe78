"""The page and the drawing of a map: points that tell their text, coloured by label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from transduce.metrics.units import columns
from transduce.wings.pages.drawing import Drawing, path, text
from transduce.wings.pages.markup import Markup, element, scrolling
from transduce.wings.pages.page import document, notes, section
from transduce.wings.pages.placement import Box, label_boxes
from transduce.wings.vectors.representations.maps import Map

SIDE, MARGIN, KEY = 760, 16, 22  # pixels: the plane, around it, a line of the key
HUES = ("blue", "orange", "green", "red", "violet", "ochre", "teal", "grey")
NAMED = 200  # texts are written beside the points up to this number of points
CUT = 30  # characters of a text beside a point
LETTER, HIGH = 6.2, 13  # pixels: the width of a letter, the height of a text
SHAPES = (
    "m-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z",  # a circle
    "m-4.5 -4.5h9v9h-9z",  # a square
    "m0 -6l6 10.5h-12z",  # a triangle
    "m0 -6.5l6.5 6.5l-6.5 6.5l-6.5 -6.5z",  # a square on its corner
)
"""SVG commands around the middle of a point: labels also differ in shape, for those who see fewer colours."""

STYLE = "\n".join(
    [f"svg .hue{number} {{ fill: var(--{hue}); }}" for number, hue in enumerate(HUES)]
    + ["svg .point { fill-opacity: .8; stroke: var(--paper); }", "svg .name { font-size: 11px; }"]
)


def map_page(found: Map, title: str) -> str:
    """The text of an HTML page with the map. The mouse shows the text of a point. There are no scripts."""
    told = list[str]()
    if found.explained is not None:
        told = [f"The plane keeps {100 * found.explained:.1f} % of the variance."]
    elif found.method in ("tsne", "umap"):
        told.append("Distances between groups mean little, and another seed gives another map.")
    drawn = scrolling(drawing(found).inline(), "the map")
    named = Counter(label for label in found.labels if label)
    counted = f"{len(found.texts):,} points" + (f" with {len(named)} labels" if named else "")
    about, shown = f"by {found.method}", section("Map", drawn, notes(*told))
    return document(title, about, shown, style=STYLE, summary=f"{counted}; near points are similar vectors.")


def drawing(found: Map) -> Drawing:
    """The points with their texts as tooltips, and a key of the labels. The eight most frequent labels have colours of
    their own up to the seventh, and four shapes in turn; all others share the last. A map of at most 200 points has
    the texts beside them, as far as there is room.
    """
    labels = [label for label, _ in Counter(found.labels).most_common()]
    hues = {label: min(number, len(HUES) - 1) for number, label in enumerate(labels)}
    low_2, high_2 = found.points_N2.min(0), found.points_N2.max(0)
    size = float(max(1e-9, (high_2 - low_2).max()))
    places_N2 = MARGIN + (found.points_N2 - low_2) / size * SIDE
    wide, high = (high_2 - low_2) / size * SIDE + 2 * MARGIN
    parts = []
    for label, sentence, (x, y) in zip(found.labels, found.texts, places_N2.tolist(), strict=True):
        told = element("title", f"{sentence} ({label})" if label else sentence)
        parts.append(_point(x, high - y, hues[label], told))
    key = _key(labels, hues, high) if labels != [""] else []
    room = LETTER * CUT if len(found.texts) <= NAMED else 0
    width = max(wide + room, 200)
    if len(found.texts) <= NAMED:
        parts += _names(found.texts, [(x, high - y) for x, y in places_N2.tolist()], Box(0, 0, width, high))
    return Drawing(round(width), round(high + KEY * len(key) / 2 + MARGIN), "a map of vectors", parts + key)


def _names(texts: Sequence[str], points: Sequence[tuple[float, float]], page: Box) -> list[Markup]:
    """The texts beside their points. A text that would hide another one or a point is left out: the mouse tells it."""
    short = [each if len(each) <= CUT else f"{each[: CUT - 1]}…" for each in texts]
    boxes = label_boxes(points, [LETTER * columns(each) for each in short], HIGH, 8, page)
    return [
        text(box.x, box.y + box.height / 2, each, class_="name")
        for each, box in zip(short, boxes, strict=True)
        if box is not None
    ]


def _key(labels: list[str], hues: dict[str, int], below: float) -> list[Markup]:
    named = labels[: len(HUES)] if len(labels) <= len(HUES) else [*labels[: len(HUES) - 1], "others"]
    parts = []
    for line, label in enumerate(named):
        y = float(np.round(below + KEY * (line + 0.5), 1))
        parts += [_point(MARGIN, y, hues.get(label, len(HUES) - 1)), text(MARGIN + 12, y, label)]
    return parts


def _point(x: float, y: float, hue: int, *told: Markup) -> Markup:
    return path(f"M{x:.1f} {y:.1f}{SHAPES[hue % len(SHAPES)]}", *told, class_=f"point hue{hue}")
