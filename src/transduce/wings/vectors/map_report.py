"""The page and the drawing of a map: points that tell their text, coloured by label."""

from __future__ import annotations

from collections import Counter

import numpy as np

from transduce.wings.pages.drawing import Drawing, path, text
from transduce.wings.pages.markup import Markup, element
from transduce.wings.pages.page import document, notes, section
from transduce.wings.vectors.representations.maps import Map

SIDE, MARGIN, KEY = 620, 16, 22  # pixels: the plane, around it, a line of the key
HUES = ("blue", "orange", "green", "red", "violet", "ochre", "teal", "grey")
NAMED = 40  # texts are written beside the points up to this number of points
CUT = 30  # characters of a text beside a point
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
    told = ["Near points are similar vectors."]
    if found.explained is not None:
        told = [f"The plane keeps {100 * found.explained:.1f} % of the variance."]
    elif found.method in ("tsne", "umap"):
        told.append("Distances between groups mean little, and another seed gives another map.")
    drawn = element("div", drawing(found).inline(), class_="wide")
    return document(
        title, f"{len(found.texts):,} points by {found.method}", section("Map", drawn, notes(*told)), style=STYLE
    )


def drawing(found: Map) -> Drawing:
    """The points with their texts as tooltips, and a key of the labels. The eight most frequent labels have colours of
    their own up to the seventh, and four shapes in turn; all others share the last. A map of at most 40 points has the
    texts beside them.
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
        if len(found.texts) <= NAMED:
            short = sentence if len(sentence) <= CUT else f"{sentence[: CUT - 1]}…"
            parts.append(text(x + 8, high - y, short, class_="name"))
    key = _key(labels, hues, high) if labels != [""] else []
    room = 8 * CUT if len(found.texts) <= NAMED else 0
    return Drawing(
        round(max(wide + room, 200)), round(high + KEY * len(key) / 2 + MARGIN), "a map of vectors", parts + key
    )


def _key(labels: list[str], hues: dict[str, int], below: float) -> list[Markup]:
    named = labels[: len(HUES)] if len(labels) <= len(HUES) else [*labels[: len(HUES) - 1], "others"]
    parts = []
    for line, label in enumerate(named):
        y = float(np.round(below + KEY * (line + 0.5), 1))
        parts += [_point(MARGIN, y, hues.get(label, len(HUES) - 1)), text(MARGIN + 12, y, label)]
    return parts


def _point(x: float, y: float, hue: int, *told: Markup) -> Markup:
    return path(f"M{x:.1f} {y:.1f}{SHAPES[hue % len(SHAPES)]}", *told, class_=f"point hue{hue}")
