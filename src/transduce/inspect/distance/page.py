"""An edit-distance table as a page of its own, for a slide: HTML with neither network nor script."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any

from transduce.inspect.distance.drawing import FAINT, HUES, INK, named, svg
from transduce.inspect.distance.terminal import GAP, prices
from transduce.metrics.distance import Alignment, Edit, EditTable, Kind
from transduce.metrics.units import shown

LISTED = 50  # alignments on a page

STYLE = f"""
body {{ font: 17px/1.5 system-ui, sans-serif; color: {INK}; background: #fff; margin: 2rem auto; max-width: 72rem;
  padding: 0 1.5rem }}
h1 small {{ font-weight: 400; color: #616e7c; margin-left: .6em }}
.table {{ overflow-x: auto }}
.key {{ white-space: nowrap; margin-right: 1.2em }}
.key::before {{ content: "← " }}
pre {{ font: 15px/1.6 ui-monospace, monospace; background: #f5f7fa; padding: .8rem 1rem; overflow-x: auto }}
.alignment {{ display: flex; flex-wrap: wrap; gap: .4rem 3px; margin-bottom: .9rem }}
.edit {{ text-align: center; min-width: 1.6em; padding: 0 .3em; background: #f5f7fa; border-bottom: 4px solid }}
.edit span {{ display: block; color: {INK} }}
"""


def save(table: EditTable[Any], path: str | Path) -> None:
    """Write the table into a file: .html, the page, or .svg, the drawing alone; ValueError for another ending."""
    suffix = Path(path).suffix
    if suffix not in (".html", ".svg"):
        raise ValueError(f"{path}: a table is written as .html or .svg; end the name with one of them")
    Path(path).write_text(page(table) if suffix == ".html" else svg(table), encoding="utf-8")


def page(table: EditTable[Any]) -> str:
    """The distance, the table, the rule that filled it, and optimal alignments, at most 50 of them."""
    title = f"{_joined(table.source)} → {_joined(table.target)}"
    items = "\n".join(f"<li>{_alignment(each)}</li>" for each in islice(table.alignments(), LISTED))
    left = table.count - LISTED
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}: {table.distance:g}</title>
<style>{STYLE}</style>
<h1>{title} <small>edit distance {table.distance:g}</small></h1>
<div class="table">
{svg(table)}</div>
<p>{_key(table)}</p>
<pre>{_rule(table)}</pre>
<h2>{table.count:,} optimal alignment{"" if table.count == 1 else "s"}</h2>
<ol>
{items}
</ol>
{f"<p>and {left:,} more</p>" if left > 0 else ""}
</html>
"""


def _joined(units: Sequence[Any]) -> str:
    """The units as one text: characters side by side, others apart."""
    texts = [shown(unit) for unit in units]
    return escape(("" if all(len(str(unit)) == 1 for unit in units) else " ").join(texts)) or "nothing"


def _key(table: EditTable[Any]) -> str:
    keys = (
        f'<span class="key" style="color:{HUES[kind]}">{kind} {price:g}</span>'
        for kind, price in prices(table.costs).items()
    )
    return (
        f'{"".join(keys)}<span class="key" style="color:{FAINT}">on no optimal alignment</span><br>'
        "The more of the optimal alignments pass a cell, the darker it is; the cells of the first are framed. "
        "Pointed at, a cell shows what it is the least of."
    )


def _rule(table: EditTable[Any]) -> str:
    """The recurrence with the costs in it; x is the source, y the target."""
    cost = {kind: f"{price:g}" for kind, price in prices(table.costs).items()}
    rows: list[tuple[str, str, Kind]] = [
        ("D[i−1, j−1]", "if x<sub>i</sub> = y<sub>j</sub>", "match"),
        (f"D[i−1, j−1] + {cost['substitute']}", "if x<sub>i</sub> ≠ y<sub>j</sub>", "substitute"),
        (f"D[i−1, j] + {cost['delete']}", "", "delete"),
        (f"D[i, j−1] + {cost['insert']}", "", "insert"),
    ]
    if "transpose" in cost:
        crossed = "if x<sub>i−1</sub> x<sub>i</sub> = y<sub>j</sub> y<sub>j−1</sub>"
        rows.insert(2, (f"D[i−2, j−2] + {cost['transpose']}", crossed, "transpose"))
    return "D[0, 0] = 0\nD[i, j] = the least of\n" + "\n".join(
        f'    {value:<20}<span style="color:{HUES[kind]}">{kind}</span> {when}' for value, when, kind in rows
    )


def _alignment(alignment: Alignment[Any]) -> str:
    return f'<div class="alignment">{"".join(map(_edit, alignment))}</div>'


def _edit(edit: Edit[Any]) -> str:
    source, target = (escape(" ".join(map(shown, units))) or GAP for units in (edit.source, edit.target))
    return (
        f'<div class="edit" style="border-color:{HUES[edit.kind]}" title="{escape(named(edit))}">'
        f"<span>{source}</span><span>{target}</span></div>"
    )
