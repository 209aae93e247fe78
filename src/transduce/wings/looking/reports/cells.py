"""The page of a unit: the text that a recurrent model read, each character coloured by the unit's value."""

from __future__ import annotations

from itertools import groupby

from transduce.wings.looking.inspection.cells import CellTrace
from transduce.wings.looking.inspection.tracking import Tracking
from transduce.wings.pages.drawing import Drawing, box, text
from transduce.wings.pages.legend import scale
from transduce.wings.pages.markup import element, joined, table
from transduce.wings.pages.page import document, section

STEPS = 8  # shades of each sign
SHOWN = 20_000  # characters of the text on a page
STYLE = "\n".join(
    [
        ".read { white-space: pre-wrap; font: 15px/1.7 ui-monospace, monospace; }",
        ".read span { border-radius: 2px; }",
        *(
            f".{sign}{step} {{ background: color-mix(in srgb, var(--{color}) {step * 45 // STEPS}%, transparent); }}"
            for sign, color in (("p", "blue"), ("n", "orange"))
            for step in range(1, STEPS + 1)
        ),
    ]
)


def cells_page(found: CellTrace, unit: int, tracking: Tracking | None = None) -> str:
    """The text of an HTML page: at most 20,000 characters of the text, coloured by the unit. Blue is a positive value
    and orange a negative one; the mouse shows the number. With ``tracking``, a table has the units that follow its
    property best.
    """
    values = found.values(unit)[:SHOWN]
    spans = []
    for (shade, value), group in groupby(
        zip(found.text, values, strict=False), lambda each: (mark(float(each[1])), f"{each[1]:+.2f}")
    ):
        letters = "".join(letter for letter, _ in group)
        spans.append(element("span", letters, class_=shade, title=value) if shade else joined([letters]))
    largest = max((abs(float(each)) for each in values), default=0.0)
    key = scale(f"-{largest:.2f}", f"+{largest:.2f}", "blue", "orange")
    parts = [section(found.name(unit), key, element("div", *spans, class_="read spread", dir="auto"))]
    if tracking is not None:
        rows = [(found.name(each), f"{correlation:+.3f}") for each, correlation in tracking.units]
        told = (
            f"All units together, in a linear probe: F1 {tracking.f1:.1f} %, R² {tracking.explained:.3f}. Units and "
            f"probe were chosen on the first half of the text; the figures are of the {tracking.characters:,} "
            "characters of the second."
        )
        about = element("p", told)
        parts.append(section(f"Units that follow {tracking.name}", about, table(("unit", "correlation"), rows)))
    told = "Blue: positive, orange: negative; the darkest is the unit's largest absolute value."
    summary = ""
    if tracking is not None:
        name, correlation = tracking.units[0]
        summary = f"{found.name(name)} follows {tracking.name} best, with a correlation of {correlation:+.2f}."
    return document("What a unit follows", told, *parts, style=STYLE, summary=summary)


LINES, WIDE, HIGH = 40, 8.5, 20  # lines of a drawing; pixels of a character
DRAWN = """
svg text { font: 14px ui-monospace, "DejaVu Sans Mono", monospace; white-space: pre; }
svg .p { fill: var(--blue); } svg .n { fill: var(--orange); }
"""


def cells_drawing(found: CellTrace, unit: int) -> str:
    """The text of an SVG file: the first 40 lines that are not empty, each character on the colour of the unit's
    value. Blue is positive and orange negative.
    """
    values, parts, row, widest, begin = found.values(unit), [], 0, 1, 0
    for line in found.text.split("\n"):
        if line.strip() and row < LINES:
            for place, value in enumerate(values[begin : begin + len(line)].tolist()):
                sign = "p" if value > 0 else "n"
                parts.append(box(place * WIDE, row * HIGH, WIDE, HIGH - 2, class_=sign, fill_opacity=abs(value) * 0.5))
            parts.append(text(0, row * HIGH + HIGH / 2 - 1, line, textLength=len(line) * WIDE))
            row, widest = row + 1, max(widest, len(line))
        begin += len(line) + 1
    return Drawing(widest * WIDE, max(1, row) * HIGH, found.name(unit), parts).alone(DRAWN)


def mark(value: float) -> str:
    """The CSS class of a value between -1 and 1; "" for a value near 0."""
    step = round(abs(value) * STEPS)
    return "" if step == 0 else f"{'p' if value > 0 else 'n'}{step}"
