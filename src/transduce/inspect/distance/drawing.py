"""An edit-distance table as a drawing, SVG without scripts: what is pointed at says what it is."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from transduce.inspect.distance.terminal import START, path
from transduce.metrics.distance import Edit, EditTable, Kind
from transduce.metrics.units import columns, shown

INK, FAINT, RULE, OPTIMAL = "#1f2933", "#b8c1cc", "#e4e7eb", "#1d4ed8"
HUES: dict[Kind, str] = {
    "match": "#0f8a5f",
    "substitute": "#e8590c",
    "transpose": "#7048e8",
    "delete": "#c2255c",
    "insert": "#1d4ed8",
}
HIGH = 54  # pixels of a cell; it is as wide, or wider where units are long
DIGIT, LETTER = 5, 10  # pixels: half a digit of a cell's number, a letter of a unit

STYLE = f"""
text {{ font: 17px system-ui, sans-serif; fill: {INK}; text-anchor: middle; dominant-baseline: central }}
.unit {{ font-weight: 600 }}
.cell rect {{ fill: {OPTIMAL}; stroke: {RULE} }}
.cell .framed {{ stroke: {OPTIMAL}; stroke-width: 2 }}
.arrow {{ fill: none; stroke: {FAINT}; stroke-width: 1.3 }}
"""


def svg(table: EditTable[Any]) -> str:
    """Every cell with its back-pointers. Those of optimal alignments have the colour of their edit; a cell is the
    darker, the more of these alignments pass it; the cells of ``table.alignment()`` are framed."""
    longest = max((columns(shown(unit)) for unit in (*table.source, *table.target)), default=1)
    wide = max(HIGH, LETTER * longest + 14)
    size = wide * (len(table.target) + 2), HIGH * (len(table.source) + 2)
    distances = table.distances
    framed = set(path(table.alignment()))
    cells = [(i, j) for i, row in enumerate(distances) for j in range(len(row))]
    heads = [(0.5, j + 1.5, unit) for j, unit in enumerate([START, *table.target])]
    margins = [(i + 1.5, 0.5, unit) for i, unit in enumerate([START, *table.source])]
    parts = [
        *(
            f'<text class="unit" x="{wide * x:g}" y="{HIGH * y:g}">{escape(shown(unit))}</text>'
            for y, x, unit in heads + margins
        ),
        *(_cell(table, i, j, distances[i][j], (i, j) in framed, wide) for i, j in cells),
        *(_arrow(edit, i, j, distances, table.passing[i][j] > 0, wide) for i, j in cells for edit in table.edits(i, j)),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}" '
        f'viewBox="0 0 {size[0]} {size[1]}" role="img" aria-label="table of edit distances">\n'
        f"<style>{STYLE}</style>\n<defs>{''.join(_tips())}</defs>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def named(edit: Edit[Any]) -> str:
    """An edit in words: substitute a by b."""
    source, target = (" ".join(map(shown, units)) for units in (edit.source, edit.target))
    return f"{edit.kind} {source} by {target}" if edit.kind == "substitute" else f"{edit.kind} {source or target}"


def _cell(table: EditTable[Any], i: int, j: int, cost: float, framed: bool, wide: int) -> str:
    """A rectangle with the least cost, which is explained where one points at it."""
    ways = [f"{named(edit)}: {total - edit.cost:g} + {edit.cost:g} = {total:g}" for edit, total in table.options(i, j)]
    title = "\n".join([f"D[{i}, {j}] = {cost:g}", *ways])
    share = table.passing[i][j] / table.count
    shade = f"{0.06 + 0.24 * share:.3g}" if share else "0"
    frame = ' class="framed"' if framed else ""
    return (
        f'<g class="cell"><title>{escape(title)}</title>'
        f'<rect x="{wide * (j + 1) + 1}" y="{HIGH * (i + 1) + 1}" width="{wide - 2}" height="{HIGH - 2}" rx="5" '
        f'fill-opacity="{shade}"{frame}/>'
        f'<text x="{wide * (j + 1.5):g}" y="{HIGH * (i + 1.5):g}">{cost:g}</text></g>'
    )


def _arrow(edit: Edit[Any], i: int, j: int, distances: list[list[float]], optimal: bool, wide: int) -> str:
    """From a cell to the one it was computed from; that of a transposition bends round the cell it skips."""
    up, left = len(edit.source), len(edit.target)
    (x, y), (to_x, to_y) = (
        _beside(distances, *ends, wide) for ends in ((i, j, -up, -left), (i - up, j - left, up, left))
    )
    bend = f"Q{(x + to_x) / 2 + wide / 3:g} {(y + to_y) / 2 - HIGH / 3:g} " if up > 1 else "L"
    style = f' style="stroke:{HUES[edit.kind]};stroke-width:2.6"' if optimal else ""
    tip = edit.kind if optimal else "other"
    return (
        f'<path class="arrow"{style} marker-end="url(#{tip})" d="M{x:g} {y:g} {bend}{to_x:g} {to_y:g}">'
        f"<title>{escape(named(edit))}</title></path>"
    )


def _beside(distances: list[list[float]], i: int, j: int, down: int, right: int, wide: int) -> tuple[float, float]:
    """A point at the edge of a cell's number, on the side where an arrow comes or goes."""
    number = DIGIT * len(f"{distances[i][j]:g}") + 5
    x = wide * (j + 1.5) + (right > 0) * number - (right < 0) * number
    return x, HIGH * (i + 1.5) + ((down > 0) - (down < 0)) * (11 if right else 13)


def _tips() -> Iterator[str]:
    """Arrow heads: one of each colour, for a head cannot take that of its line everywhere."""
    for name, hue in [*HUES.items(), ("other", FAINT)]:
        yield (
            f'<marker id="{name}" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="8" markerHeight="8" '
            f'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 8 4 0 8z" fill="{hue}"/></marker>'
        )
