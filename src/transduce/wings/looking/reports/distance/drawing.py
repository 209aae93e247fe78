"""An edit-distance table as an SVG drawing without scripts. Tooltips explain the cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from transduce.metrics.edit_distance import Edit, EditTable, Kind
from transduce.metrics.units import columns, shown
from transduce.wings.looking.reports.distance.terminal import START, passed
from transduce.wings.pages.drawing import Drawing, box, path, text
from transduce.wings.pages.markup import Markup, element

HUES: dict[Kind, str] = {
    "match": "green",
    "substitute": "orange",
    "transpose": "violet",
    "delete": "red",
    "insert": "blue",
}
HIGH = 54  # pixels of a cell; a column of long units is wider
DIGIT, LETTER = 5, 11  # pixels: half a digit of a cell's number, a letter of a unit

STYLE = """
svg .unit, svg .cell text { font-size: 17px; text-anchor: middle; } svg .unit { font-weight: 600; }
.cell rect { fill: var(--blue); stroke: var(--rule); } .cell .framed { stroke: var(--blue); stroke-width: 2; }
.arrow { fill: none; stroke: currentColor; stroke-width: 2.6; } .arrow.other { stroke-width: 1.3; }
.tip { fill: currentColor; } .other { color: var(--faint); } svg .other { opacity: .55; }
""" + "\n".join(f".{kind} {{ color: var(--{hue}); }}" for kind, hue in HUES.items())


def drawing(table: EditTable[object]) -> Drawing:
    """A drawing of all cells with arrows to the cells that each is computed from.

    Arrows of optimal alignments have the colour of their edit; the others are grey. A cell is darker if more of the
    optimal alignments pass it. The cells of ``table.alignment()`` have a frame.
    """
    edges = [0, *accumulate([_wide(table.source), HIGH, *(_wide([unit]) for unit in table.target)])]
    distances = table.distances
    framed = set(passed(table.alignment()))
    cells = [(i, j) for i, row in enumerate(distances) for j in range(len(row))]
    heads = [(0.5, _middle(edges, j), unit) for j, unit in enumerate([START, *table.target])]
    margins = [(i + 1.5, _middle(edges, -1), unit) for i, unit in enumerate([START, *table.source])]
    parts = [
        element("defs", *map(_tip, [*HUES, "other"])),
        *(text(x, HIGH * y, shown(unit), class_="unit") for y, x, unit in heads + margins),
        *(_cell(table, i, j, distances[i][j], (i, j) in framed, edges) for i, j in cells),
        *(_arrow(edit, i, j, table, edges) for i, j in cells for edit in table.edits(i, j)),
    ]
    size = edges[-1], HIGH * (len(table.source) + 2)
    rows, across = len(table.source) + 1, len(table.target) + 1
    about = f"table of edit distances, {rows} rows by {across} columns; the last cell has {distances[-1][-1]:g}"
    return Drawing(*size, about, parts)


def named(edit: Edit[object]) -> str:
    """An edit in words, for example "substitute a by b", "insert c" or "match a"."""
    source, target = (" ".join(map(shown, units)) for units in (edit.source, edit.target))
    return f"{edit.kind} {source} by {target}" if edit.kind == "substitute" else f"{edit.kind} {source or target}"


def _wide(units: Iterable[object]) -> int:
    """The width in pixels of a column that contains these units, at least ``HIGH``."""
    return max(HIGH, LETTER * max((columns(shown(unit)) for unit in units), default=1) + 18)


def _middle(edges: Sequence[int], j: int) -> float:
    """The x coordinate of the middle of the table's column j. -1 is the column of the row names."""
    return (edges[j + 1] + edges[j + 2]) / 2


def _cell(table: EditTable[object], i: int, j: int, cost: float, framed: bool, edges: Sequence[int]) -> Markup:
    """A rectangle with the least cost D[i, j] and a tooltip that lists the ways to reach it."""
    ways = [f"{named(edit)}: {total - edit.cost:g} + {edit.cost:g} = {total:g}" for edit, total in table.options(i, j)]
    title = "\n".join([f"D[{i}, {j}] = {cost:g}", *ways])
    share = table.passing[i][j] / table.count
    shade = round(0.06 + 0.24 * share, 3) if share else 0
    frame = {"class": "framed"} if framed else {}
    left, right = edges[j + 1 : j + 3]
    square = box(left + 1, HIGH * (i + 1) + 1, right - left - 2, HIGH - 2, rx=5, fill_opacity=shade, **frame)
    number = text(_middle(edges, j), HIGH * (i + 1.5), f"{cost:g}")
    return element("g", element("title", title), square, number, class_="cell")


def _arrow(edit: Edit[object], i: int, j: int, table: EditTable[object], edges: Sequence[int]) -> Markup:
    """An arrow from a cell to its predecessor. The arrow of a transposition bends around the cell that it skips."""
    up, left = len(edit.source), len(edit.target)
    ends = (i, j, -up, -left), (i - up, j - left, up, left)
    (x, y), (to_x, to_y) = (_beside(table.distances, *end, edges) for end in ends)
    across = edges[j + 2] - edges[j + 1]
    bend = f"Q{(x + to_x) / 2 + across / 3:g} {(y + to_y) / 2 - HIGH / 3:g} " if up > 1 else "L"
    kind = edit.kind if table.passing[i][j] > 0 else "other"
    along = f"M{x:g} {y:g} {bend}{to_x:g} {to_y:g}"
    return path(along, element("title", named(edit)), class_=f"arrow {kind}", marker_end=f"url(#{kind})")


def _beside(
    distances: list[list[float]], i: int, j: int, down: int, right: int, edges: Sequence[int]
) -> tuple[float, float]:
    """The point at the edge of a cell's number where an arrow begins or ends. ``down`` and ``right`` tell on which
    side: above if ``down`` is negative, and so on.
    """
    number = DIGIT * len(f"{distances[i][j]:g}") + 5
    x = _middle(edges, j) + (right > 0) * number - (right < 0) * number
    return x, HIGH * (i + 1.5) + ((down > 0) - (down < 0)) * (11 if right else 13)


def _tip(kind: str) -> Markup:
    """An arrow head for one colour. Not all browsers let a head inherit the colour of its line."""
    return element(
        "marker",
        path("M0 0 8 4 0 8z", class_=f"tip {kind}"),
        id=kind,
        viewBox="0 0 8 8",
        refX=6,
        refY=4,
        markerWidth=8,
        markerHeight=8,
        markerUnits="userSpaceOnUse",
        orient="auto",
    )
