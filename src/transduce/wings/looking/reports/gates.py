"""A drawing of a recurrent cell over time: its gates, and the units whose state changes most."""

from __future__ import annotations

from transduce.metrics.units import columns, shown
from transduce.wings.looking.inspection.gates import CellsOverTime
from transduce.wings.pages.drawing import Drawing, box, text
from transduce.wings.pages.markup import element

CELL, LETTER = 24, 7.6  # pixels: of a square, the width of a letter

STYLE = """
svg .gate { fill: var(--teal); } svg .plus { fill: var(--blue); } svg .minus { fill: var(--orange); }
"""


def drawing(found: CellsOverTime) -> Drawing:
    """A grid with tokens across. The rows above are gates: a darker square is a more open gate, on average over the
    units. The rows below are units: blue is positive, orange negative, and the darkest is the unit's largest absolute
    value. The mouse shows the values.
    """
    tokens = [shown(token) for token in found.tokens]
    rows = [(name, values_T.tolist(), 1.0, "gate") for name, values_T in found.gates.items()]
    for unit, values_T in zip(found.units, found.values_UT, strict=True):
        rows.append((f"unit {unit}", values_T.tolist(), max(1e-12, float(abs(values_T).max())), "unit"))
    left = 12 + LETTER * max(columns(name) for name, *_ in rows)
    above = 12 + LETTER * 0.8 * max(map(columns, tokens), default=1)
    parts = [
        text(0, 0, token, transform=f"translate({left + CELL * (t + 0.5):.4g} {above - 6:.4g}) rotate(-55)")
        for t, token in enumerate(tokens)
    ]
    for row, (name, values, most, kind) in enumerate(rows):
        y = above + CELL * row + (8 if kind == "unit" else 0)
        parts.append(text(left - 6, y + CELL / 2, name, text_anchor="end"))
        for t, value in enumerate(values):
            told = element("title", f"{name} at {tokens[t]}: {value:.3f}")
            sign = "gate" if kind == "gate" else "plus" if value > 0 else "minus"
            square = box(
                left + CELL * t, y, CELL - 2, CELL - 2, class_=sign, fill_opacity=f"{min(1.0, abs(value) / most):.3f}"
            )
            parts.append(element("g", told, square))
    right = LETTER * 0.6 * max(map(columns, tokens[-3:]), default=1)
    return Drawing(left + CELL * len(tokens) + right, above + CELL * len(rows) + 14, f"{found.name} over time", parts)
