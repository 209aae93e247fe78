"""Small pictures drawn as SVG: bars with their intervals, and a reliability curve."""

from __future__ import annotations

import math
from collections.abc import Sequence

from transduce.metrics.calibration import Calibration
from transduce.metrics.significance import Interval
from transduce.pages.drawing import Drawing, box, line, text
from transduce.pages.markup import Markup, element

HIGH, LABEL, LONG = 22, 86, 250  # pixels: a row, the room for its label, the longest bar
SIDE = 220  # of the square of a reliability curve

STYLE = """
.figures { display: flex; flex-wrap: wrap; gap: 1.8rem 2.5rem; }
svg .bar { fill: var(--blue); opacity: .75; } svg .point { fill: var(--blue); }
svg .curve { fill: none; stroke: var(--blue); stroke-width: 1.5; }
svg .frame { fill: none; stroke: var(--rule); } svg .diagonal { stroke: var(--faint); stroke-dasharray: 4 4; }
"""


def bars(
    caption: str,
    labels: Sequence[str],
    values: Sequence[float],
    intervals: Sequence[Interval | None],
    notes: Sequence[str],
    full: float,
) -> Markup:
    """A bar for each label, from 0 to at most ``full``, with its value, its interval as a whisker, and a note on the
    right."""
    scale = LONG / (full or 1.0)
    rows = []
    for row, (label, value, interval, note) in enumerate(zip(labels, values, intervals, notes, strict=True)):
        middle = HIGH * (row + 0.5)
        rows += [text(LABEL - 8, middle, label, text_anchor="end")]
        if math.isfinite(value):
            rows.append(box(LABEL, middle - 7, scale * abs(value), 14, class_="bar"))
        end = value
        if interval and math.isfinite(interval.high) and math.isfinite(interval.low):
            rows.append(line(LABEL + scale * abs(interval.low), middle, LABEL + scale * abs(interval.high), middle))
            end = max(value, interval.high)
        place = LABEL + (scale * abs(end) if math.isfinite(end) else 0) + 8
        rows.append(text(place, middle, f"{value:.1f}"))
        rows.append(text(LABEL + LONG + 60, middle, note, class_="faint"))
    return Drawing(LABEL + LONG + 165, HIGH * len(labels), caption, rows).captioned(caption)


def reliability(found: Calibration) -> Markup:
    """How often tokens are right against how sure the model is of them: below the diagonal it is too sure."""
    room = 34
    rows = [line(room, room / 2 + SIDE, room + SIDE, room / 2, class_="diagonal")]
    rows.append(box(room, room / 2, SIDE, SIDE, class_="frame"))
    most = max(each.tokens for each in found.bins)
    points = [(room + SIDE * each.confidence, room / 2 + SIDE * (1 - each.accuracy)) for each in found.bins]
    along = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    rows.append(element("polyline", points=along, class_="curve"))
    for (x, y), each in zip(points, found.bins, strict=True):
        told = f"{each.tokens:,} tokens: {100 * each.confidence:.1f} % sure, {100 * each.accuracy:.1f} % right"
        size = 2 + 5 * math.sqrt(each.tokens / most)
        rows.append(element("circle", element("title", told), cx=x, cy=y, r=size, class_="point"))
    for share in (0, 50, 100):
        at = SIDE * share / 100
        rows.append(text(room + at, room / 2 + SIDE + 14, str(share), text_anchor="middle", class_="faint"))
        rows.append(text(room - 6, room / 2 + SIDE - at, str(share), text_anchor="end", class_="faint"))
    caption = "% of tokens right (upwards) by how sure the model is of them (%); the larger a point, the more tokens"
    return Drawing(SIDE + 2 * room, SIDE + room / 2 + 24, caption, rows).captioned(caption)
