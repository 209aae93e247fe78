"""Small pictures drawn as SVG: bars with their intervals, and a reliability curve."""

from __future__ import annotations

import math
from collections.abc import Sequence

from transduce.metrics.calibration import Calibration
from transduce.metrics.significance import Interval
from transduce.reports.markup import Markup, element

HIGH, LABEL, LONG = 22, 86, 250  # pixels: a row, the room for its label, the longest bar
SIDE = 220  # of the square of a reliability curve


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
        rows += [_text(LABEL - 8, middle, label, text_anchor="end")]
        if math.isfinite(value):
            rows.append(_box(LABEL, middle - 7, scale * abs(value), 14, fill="var(--one)", opacity=0.75))
        end = value
        if interval and math.isfinite(interval.high) and math.isfinite(interval.low):
            rows.append(_line(LABEL + scale * abs(interval.low), middle, LABEL + scale * abs(interval.high), middle))
            end = max(value, interval.high)
        place = LABEL + (scale * abs(end) if math.isfinite(end) else 0) + 8
        rows.append(_text(place, middle, f"{value:.1f}"))
        rows.append(_text(LABEL + LONG + 60, middle, note, class_="faint"))
    return _figure(caption, LABEL + LONG + 165, HIGH * len(labels), rows)


def reliability(found: Calibration) -> Markup:
    """How often tokens are right against how sure the model is of them: below the diagonal it is too sure."""
    room = 34
    rows = [_line(room, room / 2 + SIDE, room + SIDE, room / 2, stroke="var(--faint)", stroke_dasharray="4 4")]
    rows.append(_box(room, room / 2, SIDE, SIDE, fill="none", stroke="var(--rule)"))
    most = max(each.tokens for each in found.bins)
    points = [(room + SIDE * each.confidence, room / 2 + SIDE * (1 - each.accuracy)) for each in found.bins]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    rows.append(element("polyline", points=path, fill="none", stroke="var(--one)", stroke_width=1.5))
    for (x, y), each in zip(points, found.bins, strict=True):
        told = f"{each.tokens:,} tokens: {100 * each.confidence:.1f} % sure, {100 * each.accuracy:.1f} % right"
        size = 2 + 5 * math.sqrt(each.tokens / most)
        rows.append(element("circle", element("title", told), cx=x, cy=y, r=size, fill="var(--one)"))
    for share in (0, 50, 100):
        at = SIDE * share / 100
        rows.append(_text(room + at, room / 2 + SIDE + 14, str(share), text_anchor="middle", class_="faint"))
        rows.append(_text(room - 6, room / 2 + SIDE - at, str(share), text_anchor="end", class_="faint"))
    caption = "% of tokens right (upwards) by how sure the model is of them (%); the larger a point, the more tokens"
    return _figure(caption, SIDE + 2 * room, SIDE + room / 2 + 24, rows)


def _figure(caption: str, wide: float, high: float, drawn: Sequence[Markup]) -> Markup:
    picture = element(
        "svg", *drawn, role="img", aria_label=caption, width=wide, height=high, viewBox=f"0 0 {wide:g} {high:g}"
    )
    return element("figure", picture, element("figcaption", caption))


def _text(x: float, y: float, text: str, **attributes: str | float) -> Markup:
    return element("text", text, x=x, y=y, dy="0.35em", **attributes)


def _line(x1: float, y1: float, x2: float, y2: float, stroke: str = "var(--ink)", **attributes: str) -> Markup:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=stroke, **attributes)


def _box(x: float, y: float, width: float, height: float, **attributes: str | float) -> Markup:
    return element("rect", x=x, y=y, width=width, height=height, **attributes)
