"""Pictures of the posterior probabilities of labels: a drawing, a page, or a JSON file."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.core.files import write_text
from transduce.wings.looking.inspection.label_posteriors import LEAST, LabelReading
from transduce.wings.pages.markup import Markup, element, table
from transduce.wings.pages.numbers import percent
from transduce.wings.pages.page import document, section
from transduce.wings.pages.page import write as write_page
from transduce.wings.pages.palette import FAINT, HUES, INK, PAPER
from transduce.wings.pages.plots import figure, save, shades

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CELL = 0.34  # inches
SHOWN = 0.0005  # smallest posterior probability in the table: smaller ones would be written as 0
STYLE = """
.posteriors svg { background: #fff; max-width: 100%; height: auto; border-radius: 6px; }
td:last-child, th:last-child { text-align: left; }
"""


def draw(found: LabelReading) -> Figure:
    """A figure: a grid with the places of the source across and labels down, shaded by posterior probability. A dot is
    the path's label. A label below ``LEAST`` everywhere is left out, unless it is on the path.

    Raises MissingPackageError without matplotlib.
    """
    likely_L = (found.posterior_TL >= LEAST).any(0).tolist()
    names = [name for name, likely in zip(found.labels, likely_L, strict=True) if likely or name in found.path]
    posterior_TL = found.posterior_TL[:, [found.labels.index(name) for name in names]]
    drawn = figure(CELL * max(1, len(found.places)) + 1.8, CELL * max(1, len(names)) + 2.0)
    ax = drawn.subplots()
    ax.pcolormesh(posterior_TL.T.numpy(), cmap=shades(), vmin=0, vmax=1, edgecolors=PAPER, linewidth=1.5)
    ax.set_aspect("equal")
    ax.invert_yaxis()
    ax.xaxis.tick_top()
    ax.set_xticks(
        [t + 0.5 for t in range(len(found.places))], found.places, rotation=60, ha="left", rotation_mode="anchor"
    )
    ax.set_yticks([label + 0.5 for label in range(len(names))], names)
    for text in (*ax.get_xticklabels(), *ax.get_yticklabels()):
        text.set(color=INK, fontsize=10, parse_math=False)  # matplotlib would read "$" as mathematics
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    for place, label in enumerate(found.path):
        if label in names:
            ax.plot(place + 0.5, names.index(label) + 0.5, "o", markersize=6, color=HUES[1], markeredgecolor=PAPER)
    ax.set_xlabel("dot: label of the most probable sequence; shade: posterior probability", fontsize=8, color=FAINT)
    return drawn


def page(found: LabelReading) -> str:
    """The text of an HTML page: the drawing, and a table with each place's label on the path and its at most 5 most
    probable labels. Raises MissingPackageError without matplotlib.
    """
    text = io.StringIO()
    draw(found).savefig(text, format="svg", bbox_inches="tight")
    svg = text.getvalue()
    rows = [
        (place, label, ", ".join(f"{name} {percent(p)}" for name, p in found.best(number, 5) if p >= SHOWN))
        for number, (place, label) in enumerate(zip(found.places, found.path, strict=True))
    ]
    parts = (
        section("Posterior probabilities", element("div", Markup(svg[svg.index("<svg") :]), class_="posteriors")),
        section("Labels", table(("place", "label", "most probable labels"), rows)),
    )
    about = f"{found.source} · log-probability of the labels {found.output.log_prob:.3f}"
    return document("Labels", about, *parts, style=STYLE, summary=_summary(found))


def _summary(found: LabelReading) -> str:
    """The place whose label is least sure."""
    least = min(range(len(found.places)), key=lambda number: found.best(number, 1)[0][1])
    (label, p), *others = found.best(least, 2)
    other = f", before {others[0][0]}" if others else ""
    return f"The least sure label is that of {found.places[least]}: {label} with {percent(p)}{other}."


def write(found: LabelReading, out: Path) -> None:
    """Writes the file ``out``: JSON if its name ends with .json, a page if it ends with .html, otherwise a drawing
    (.png, .svg, .pdf or another format that matplotlib supports).

    Raises UserError for any other suffix. Raises MissingPackageError without matplotlib, which JSON does not need.
    """
    if out.suffix == ".json":
        write_text(out, json.dumps(found.record(), ensure_ascii=False, indent=1) + "\n")
    elif out.suffix == ".html":
        write_page(out, page(found))
    else:
        save(draw(found), out)
