"""The page of a sweep, results.html: a table that sorts, the spread over seeds, and a small curve for each variant."""

from __future__ import annotations

from collections.abc import Sequence

from transduce.core.files import write_text
from transduce.core.finite import readable
from transduce.metrics.base import metric
from transduce.wings.lab.sweeps import table
from transduce.wings.lab.sweeps.curves import by_length, short_names
from transduce.wings.lab.sweeps.results import Spread, SweepResults, chosen_score
from transduce.wings.pages import page, sorting
from transduce.wings.pages.drawing import Drawing, box, line, text
from transduce.wings.pages.markup import Markup, element
from transduce.wings.pages.page import document, notes, section
from transduce.wings.pages.sorting import sortable

PAGE = "results.html"
WIDE, HIGH = 160, 18  # pixels of a spread
PANEL = (230, 130)  # pixels of a small curve
STYLE = (
    sorting.STYLE
    + """
td svg { display: inline-block; vertical-align: middle; } svg .dot { fill: var(--blue); }
svg .mean { stroke: var(--ink); stroke-width: 2; }
svg .range { stroke: var(--blue); stroke-opacity: .45; stroke-width: 2; }
svg .own { fill: none; stroke: var(--blue); stroke-width: 2; } svg .other { fill: none; stroke: var(--grey);
  stroke-opacity: .4; } svg .frame { fill: none; stroke: var(--rule); } svg .small { font-size: 10px; }
"""
)


def write(results: SweepResults) -> None:
    """Writes results.md, results.html and results.csv into the sweep's folder, and replaces older ones."""
    for name, content in (("results.md", table.page(results)), ("results.csv", table.runs(results))):
        write_text(results.out / name, content)
    page.write(results.out / PAGE, results_page(results))


def results_page(results: SweepResults) -> str:
    """The text of an HTML page. A click on a heading sorts the table."""
    parts = [_table(results)] if results.rows else []
    name = next(iter(results.metrics), None)
    if name is not None and (curves := _curves(results, name)):
        parts.append(curves)
    if results.unfinished:
        listed = [
            element("li", f"{cell} ({folder / 'log.txt'})") for cell, folder in results.unfinished_folders.items()
        ]
        parts.append(section("Not finished", element("ul", *listed)))
    about = f"Recipe {results.question.recipe}" if results.question.recipe else "A sweep"
    title = f"Sweep {results.out.name}"
    return document(title, about, *parts, style=STYLE, summary=summary(results), script=sorting.SCRIPT)


def summary(results: SweepResults) -> str:
    """Which variant is best by the score that ranks, and whether the seeds of the next one overlap with its own."""
    if not results.rows:
        return "Nothing is finished."
    first = results.rows[0]
    left = f" {len(results.unfinished)} runs are not finished." if results.unfinished else ""
    names = dict(
        zip(
            (row.variant.name for row in results.rows),
            short_names([row.variant.name for row in results.rows]),
            strict=True,
        )
    )
    name = next(iter(results.metrics), None)
    if name is None or not first.score(name).values or results.ranked_by is None:
        return f"{len(results.rows)} variants are measured.{left}"
    score = first.score(name)
    told = f"{names[first.variant.name]} is best by {results.ranked_by}: {name} {score.mean:.2f}"
    if len(results.rows) == 1:
        return f"{told}.{left}"
    ranks = [row.spread(lambda found: chosen_score(found, str(results.ranked_by))).mean for row in results.rows]
    if (alike := ranks.count(ranks[0])) > 1:
        who = "All variants" if alike == len(ranks) else f"The best {alike} variants"
        return f"{who} are equally good by {results.ranked_by}; {name} of the first is {score.mean:.2f}.{left}"
    other = results.rows[1]
    if len(score.values) == 1:
        return f"{told}. With one seed, how much of it is chance is not known.{left}"
    apart = _apart(score, other.score(name))
    beside = names[other.variant.name]
    told += f"; its seeds {'are all better than' if apart else 'overlap with'} those of {beside}, the next one"
    return f"{told}.{left}"


def _apart(one: Spread, other: Spread) -> bool:
    return not other.values or one.low > other.high or one.high < other.low


def _table(results: SweepResults) -> Markup:
    (_, *head), rows = table.cells(results)
    head, small = ["variant", *head], notes(*(line.replace("`", "") for line in table.told(results)))
    name = next(iter(results.metrics), None)
    if name is None:
        return section("Variants", sortable(head, rows, "the variants"), small)
    values = [value for row in results.rows for value in row.score(name).values]
    low, high = (min(values), max(values)) if values else (0.0, 0.0)
    less = "" if metric(name).higher_is_better else ", less is better"
    head.insert(1, f"{name}, {low:.2f} to {high:.2f}{less}")
    for row, found in zip(rows, results.rows, strict=True):
        score = found.score(name)
        row.insert(1, (_spread(score, low, high), score.mean if score.values else None))
    told = element("p", "A dot is a seed, and the upright line is the mean. A heading sorts the table.", class_="faint")
    return section("Variants", told, sortable(head, rows, "the variants"), small)


def _spread(found: Spread, low: float, high: float) -> str:
    """A dot for each seed, a line over their range, and one for their mean. All rows have one scale."""
    if not found.values:
        return ""

    def x(value: float) -> float:
        return 6 + (WIDE - 12) * (value - low) / ((high - low) or 1.0)

    middle = HIGH / 2
    parts = [box(0.5, 0.5, WIDE - 1, HIGH - 1, class_="frame")]
    parts.append(line(x(found.low), middle, x(found.high), middle, class_="range"))
    parts += [element("circle", cx=f"{x(value):.1f}", cy=middle, r=3.5, class_="dot") for value in found.values]
    parts.append(line(x(found.mean), 3, x(found.mean), HIGH - 3, class_="mean"))
    return Drawing(WIDE, HIGH, ", ".join(f"{value:.2f}" for value in found.values), parts).inline()


def _curves(results: SweepResults, name: str) -> Markup | None:
    """A small panel for each variant: its own curve in blue, those of the others behind it in grey."""
    curves = [by_length(row, name) for row in results.rows]
    if not any(len(curve) > 1 for curve in curves):
        return None
    points = [point for curve in curves for point in curve]
    ends = tuple((min(each), max(each)) for each in zip(*points, strict=True))
    panels = [
        element("figure", element("figcaption", label), _panel(place, curves, ends, name))
        for place, label in enumerate(short_names([row.variant.name for row in results.rows]))
    ]
    unit = results.measurements[0].length_unit
    told = f"{name} against the {unit} in the source; the other variants are grey. All panels have one scale."
    return section(f"{name} by length", element("p", told, class_="faint"), element("div", *panels, class_="spread"))


def _panel(
    place: int, curves: Sequence[Sequence[tuple[float, float]]], ends: Sequence[tuple[float, float]], name: str
) -> Markup:
    wide, high = PANEL
    left, below, above = 34.0, 18.0, 8.0
    (short, long), (low, top) = ends

    def at(length: float, score: float) -> str:
        x = left + (wide - left - 8) * (length - short) / ((long - short) or 1.0)
        y = high - below - (high - below - above) * (score - low) / ((top - low) or 1.0)
        return f"{x:.1f},{y:.1f}"

    parts = [box(left, above, wide - left - 8, high - below - above, class_="frame")]
    order = [*(other for other in range(len(curves)) if other != place), place]
    for each in order:
        kind = "own" if each == place else "other"
        parts.append(element("polyline", points=" ".join(at(*point) for point in curves[each]), class_=kind))
    for value, y in ((top, above + 4), (low, high - below - 3)):
        parts.append(text(left - 4, y, readable(value, 3), text_anchor="end", class_="small"))
    parts.append(text(left, high - 7, f"{short:.0f}", class_="small"))
    parts.append(text(wide - 8, high - 7, f"{long:.0f}", text_anchor="end", class_="small"))
    return Drawing(wide, high, f"{name} by the length of the source", parts).inline()
