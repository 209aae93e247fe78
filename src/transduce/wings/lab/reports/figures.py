"""Small figures: tables with bars and shades, and a reliability curve."""

from __future__ import annotations

import math
from collections.abc import Sequence

from transduce.core.finite import readable
from transduce.metrics.calibration import Calibration
from transduce.metrics.confusions import LabelBreakdown
from transduce.metrics.significance import Interval
from transduce.wings.pages.drawing import Drawing, box, line, text
from transduce.wings.pages.legend import scale
from transduce.wings.pages.markup import Markup, element, table

SIDE, ROOM = 220, 48  # pixels: the side of a reliability curve, and the margin for its labels
DEEPEST = 45  # most colour of a cell in percent, so that its text stays readable

STYLE = """
.figures { display: flex; flex-wrap: wrap; gap: 1.2rem 2.5rem; align-items: start; }
.bars { max-width: 100%; } .bars td, .bars th { padding-right: .8rem; }
.bars td, .bars tbody th { border-bottom: 0; padding-top: .1rem; padding-bottom: .1rem; }
.bars tbody th { font-weight: 500; white-space: nowrap; } .bars :is(td, th):nth-child(2) { text-align: left; }
.bar { display: block; position: relative; height: 14px; width: clamp(4rem, 22vw, 16rem); }
.bar > * { position: absolute; top: 0; bottom: 0; left: 0; background: var(--blue); opacity: .75; }
.bar > .whisker { top: 6px; bottom: 6px; background: var(--ink); opacity: 1; }
.matrix td { padding: 0; } .matrix thead th { padding-right: .5rem; }
.matrix span { display: block; padding: .3rem .5rem; } .matrix .right { font-weight: 600; }
svg .point { fill: var(--blue); } svg .curve { fill: none; stroke: var(--blue); stroke-width: 1.5; }
svg .frame { fill: none; stroke: var(--rule); } svg .diagonal { stroke: var(--faint); stroke-dasharray: 4 4; }
"""


def bars(
    title: str,
    measured: str,
    labels: Sequence[str],
    values: Sequence[float],
    intervals: Sequence[Interval | None],
    counts: Sequence[int],
    axis: tuple[float, float],
) -> Markup:
    """A table with one row per label: a bar, its interval as a whisker, the value, and the number of
    examples.

    ``measured`` is the name of the values. ``counts`` are the numbers of examples. ``axis`` has the numbers at the left
    and the right end of all bars' scale, 0 included. A bar begins at 0 and ends at its value, to the left of 0 if the
    value is negative. A value that is not finite has no bar, and such an interval no whisker.
    """
    rows = [
        [label, _bar(value, interval, axis), f"{value:.1f}" if math.isfinite(value) else "–", f"{count:,}"]
        for label, value, interval, count in zip(labels, values, intervals, counts, strict=True)
    ]
    head = ["group", f"{readable(axis[0], 3)} to {readable(axis[1], 3)}", measured, "examples"]
    return element("div", table(head, rows, title), class_="bars")


def _bar(value: float, interval: Interval | None, axis: tuple[float, float]) -> Markup:
    begin, end = axis

    def between(one: float, other: float) -> str:
        """The style of a box from one number to the other."""
        left, right = sorted(100 * (number - begin) / ((end - begin) or 1.0) for number in (one, other))
        return f"left: {left:.4g}%; width: {right - left:.4g}%"

    parts = [element("span", style=between(0.0, value))] if math.isfinite(value) else []
    if interval and math.isfinite(interval.high) and math.isfinite(interval.low):
        told = f"95 %: {interval.low:.1f} to {interval.high:.1f}"
        style = between(interval.low, interval.high)
        parts.append(element("span", class_="whisker", style=style, title=told))
    return element("span", *parts, class_="bar")


def confusions(found: LabelBreakdown) -> Markup:
    """A table of counts: a row for each reference label, a column for each predicted label, at most ``MOST`` of
    ``metrics.confusions`` each.

    A cell is darker if it has a larger share of its reference label. Correct predictions are blue, errors orange.
    """
    head, *rows = found.matrix()
    labels = list(found.labels)[: len(rows)]
    shaded = [
        [name, *(_shaded(found, row, label) for label in labels)] for row, (name, *_) in zip(labels, rows, strict=True)
    ]
    darkest = scale("none", "all of a row: right in blue, wrong in orange")
    return element("div", darkest, table(head, shaded), class_="matrix")


def _shaded(found: LabelBreakdown, row: str, label: str) -> Markup:
    count = found.confusions[row, label]
    share = DEEPEST * count / max(1, found.labels[row].reference)
    hue, kind = ("blue", {"class": "right"}) if row == label else ("orange", dict[str, str]())
    shade = f"background: color-mix(in srgb, var(--{hue}) {share:.0f}%, transparent)"
    return element("span", f"{count:,}" if count else "", style=shade, **kind)


def reliability(found: Calibration) -> Markup:
    """A drawing of accuracy (up) against confidence (to the right), one point per bin. A point with more tokens is
    larger.

    Below the diagonal the model is too confident.
    """
    left, top, middle = ROOM, ROOM / 4, ROOM + SIDE / 2
    rows = [line(left, top + SIDE, left + SIDE, top, class_="diagonal"), box(left, top, SIDE, SIDE, class_="frame")]
    most = max(each.tokens for each in found.bins)
    points = [(left + SIDE * each.confidence, top + SIDE * (1 - each.accuracy)) for each in found.bins]
    along = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    rows.append(element("polyline", points=along, class_="curve"))
    for (x, y), each in zip(points, found.bins, strict=True):
        told = f"{each.tokens:,} tokens: {100 * each.confidence:.1f} % sure, {100 * each.accuracy:.1f} % right"
        size = 2 + 5 * math.sqrt(each.tokens / most)
        rows.append(element("circle", element("title", told), cx=x, cy=y, r=size, class_="point"))
    for share in (0, 50, 100):
        at = SIDE * share / 100
        rows.append(text(left + at, top + SIDE + 14, str(share), text_anchor="middle", class_="faint"))
        rows.append(text(left - 6, top + SIDE - at, str(share), text_anchor="end", class_="faint"))
    rows.append(text(middle, top + SIDE + 32, "how sure the model is, %", text_anchor="middle", class_="faint"))
    upwards = f"rotate(-90 12 {top + SIDE / 2:g})"
    side: dict[str, str] = {"text_anchor": "middle", "class_": "faint", "transform": upwards}
    rows.append(text(12, top + SIDE / 2, "how often it is right, %", **side))
    about = "How often tokens are right by how sure the model is of them"
    return Drawing(SIDE + 1.5 * ROOM, SIDE + top + ROOM, about, rows).inline()


def shares(found: Calibration) -> Markup:
    """A table with one row per bin of the reliability curve: range, tokens, mean confidence, accuracy."""
    rows = [
        [f"{100 * each.low:.0f}–{100 * each.high:.0f} %", f"{each.tokens:,}"]
        + [f"{100 * share:.1f} %" for share in (each.confidence, each.accuracy)]
        for each in found.bins
    ]
    return table(["sure", "tokens", "sure on average", "right"], rows)
