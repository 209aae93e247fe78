"""An edit-distance table as an HTML page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from transduce.core.errors import UserError
from transduce.metrics.edit_distance import Alignment, Edit, EditTable, Kind
from transduce.metrics.units import columns, shown
from transduce.wings.looking.reports.distance import drawing
from transduce.wings.looking.reports.distance.terminal import GAP, prices
from transduce.wings.pages.markup import Markup, element, joined, scrolling
from transduce.wings.pages.page import document, foreign, section, write

LISTED = 50  # most alignments on a page
READ = (
    "The number in a cell is the least cost of turning what stands on the left, down to its row, into what stands "
    "above, up to its column. Its arrows point to the cells that it was computed from; each way along coloured arrows "
    "from the last cell to the first is an optimal alignment."
)
RULE = (
    "x is the source, on the left, y the target, above; D[i, j] is the cost of turning the first i of x into the first "
    "j of y."
)

STYLE = """
.key { display: inline-block; margin-right: 1.2em; } .key::before { content: "← "; }
.alignments { padding-left: 2rem; } .alignments li { break-inside: avoid; padding-bottom: 1rem; }
.alignments li::marker { color: var(--faint); font-size: .85rem; }
.alignment { display: flex; flex-wrap: wrap; gap: .4rem 3px; }
.edit { text-align: center; min-width: 1.3em; padding: 0 .3em; background: var(--card); border-bottom: 3px solid; }
.edit span { display: block; color: var(--ink); }
"""


def save(table: EditTable[object], path: str | Path) -> None:
    """Writes the page (.html) or the drawing (.svg) into the file ``path``. Raises UserError for another suffix."""
    suffix = Path(path).suffix
    if suffix not in (".html", ".svg"):
        raise UserError(f"{path}: a table is written as .html or .svg; end the name with one of them")
    write(Path(path), page(table) if suffix == ".html" else svg(table))


def svg(table: EditTable[object]) -> str:
    """The drawing alone, as the text of an SVG file."""
    return drawing.drawing(table).alone(drawing.STYLE)


def page(table: EditTable[object]) -> str:
    """The text of an HTML page: the distance, the table, its recurrence, and at most ``LISTED`` optimal alignments."""
    left = table.count - LISTED
    more = [element("p", f"and {left:,} more", class_="faint")] if left > 0 else []
    alignments = f"{table.count:,} optimal alignment{'' if table.count == 1 else 's'}"
    source, target = _joined(table.source), _joined(table.target)
    return document(
        f"{source} → {target}",
        alignments,
        section(
            "The table",
            element("p", READ, class_="faint"),
            scrolling(drawing.drawing(table).inline(), "the table"),
            *_key(table),
        ),
        section("The rule that filled it", _rule(table), element("p", RULE, class_="faint")),
        section(alignments, _listed(islice(table.alignments(), LISTED)), *more),
        style=drawing.STYLE + STYLE,
        summary=f"The edit distance is {table.distance:g}: {_edits(table)}.",
        heading=joined([foreign(source), " → ", foreign(target)]),
    )


def _edits(table: EditTable[object]) -> str:
    """The edits of the first optimal alignment, counted by kind: "2 substitute, 1 insert"."""
    kinds = Counter(edit.kind for edit in next(table.alignments()))
    kinds.pop("match", None)
    return ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()) or "the texts are equal"


def _joined(units: Sequence[object]) -> str:
    """The units as one text: characters side by side, other units with spaces between them."""
    texts = [shown(unit) for unit in units]
    return ("" if all(len(str(unit)) == 1 for unit in units) else " ").join(texts) or "nothing"


def _key(table: EditTable[object]) -> list[Markup]:
    keys = [element("span", f"{kind} {price:g}", class_=f"key {kind}") for kind, price in prices(table.costs).items()]
    other = element("span", "on no optimal alignment", class_="key other")
    told = (
        "The more of the optimal alignments pass a cell, the darker it is; the cells of the first are framed. "
        "Pointed at, a cell shows what it is the least of."
    )
    return [element("p", *keys, other), element("p", told, class_="faint")]


def _rule(table: EditTable[object]) -> Markup:
    """The recurrence with the costs, one line per kind of edit. x is the source, y the target, both counted from 1."""
    cost = {kind: f"{price:g}" for kind, price in prices(table.costs).items()}
    rows: list[tuple[str, Kind, str]] = [
        ("D[i−1, j−1]", "match", "if x[i] = y[j]"),
        (f"D[i−1, j−1] + {cost['substitute']}", "substitute", "if x[i] ≠ y[j]"),
        (f"D[i−1, j] + {cost['delete']}", "delete", ""),
        (f"D[i, j−1] + {cost['insert']}", "insert", ""),
    ]
    if "transpose" in cost:
        rows.insert(2, (f"D[i−2, j−2] + {cost['transpose']}", "transpose", "if x[i−1] = y[j] and x[i] = y[j−1]"))
    lines = [joined([f"    {value:<20}", element("span", kind, class_=kind), f" {when}"]) for value, kind, when in rows]
    return element("pre", joined(["D[0, 0] = 0", "D[i, j] = the least of", *lines], "\n"))


def _listed(alignments: Iterable[Alignment[object]]) -> Markup:
    """A numbered list of the alignments, in as many columns as fit beside each other with the longest alignment."""
    listed = list(alignments)
    letters = max(sum(2 + max(map(columns, _sides(edit))) for edit in each) for each in listed)
    items = (element("li", element("div", *map(_edit, each), class_="alignment")) for each in listed)
    return element("ol", *items, class_="alignments", style=f"column-width: {letters + 8}ch")


def _edit(edit: Edit[object]) -> Markup:
    spans = (element("span", side) for side in _sides(edit))
    return element("div", *spans, class_=f"edit {edit.kind}", title=drawing.named(edit))


def _sides(edit: Edit[object]) -> tuple[str, str]:
    source, target = (" ".join(map(shown, units)) or GAP for units in (edit.source, edit.target))
    return source, target
