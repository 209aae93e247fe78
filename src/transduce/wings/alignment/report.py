"""Pictures of one sentence pair's links, beside the gold links: a drawing, or a page."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.core.errors import UserError
from transduce.wings.alignment.corpus import CorpusAlignment
from transduce.wings.alignment.links import Gold
from transduce.wings.pages.markup import Markup, element, table
from transduce.wings.pages.page import document, section
from transduce.wings.pages.page import write as write_page
from transduce.wings.pages.palette import FAINT, HUES, INK, PAPER, RULE
from transduce.wings.pages.plots import figure, save, shades

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CELL = 0.34  # inches
GOLD_LEGEND = "dot: link found, green if right; frame: gold link, dashed if only possible"
STYLE = """
.links svg { background: #fff; max-width: 100%; height: auto; border-radius: 6px; } td { white-space: normal; }
"""

Link = tuple[int, int]  # source word, target word


@dataclass(frozen=True)
class PairLinks:
    """The links of one pair, as indices of words from 0: those found, and the gold ones; ``sure`` is None if they are
    not known.

    ``possible`` gold links include the ``sure`` ones. ``weights`` has a row for each target word and a column for each
    source word, from 0 to 1; it shades the cells.
    """

    source: Sequence[str]
    target: Sequence[str]
    found: Sequence[Link]
    weights: Sequence[Sequence[float]]
    sure: Sequence[Link] | None = None
    possible: Sequence[Link] = ()

    @classmethod
    def of(cls, found: CorpusAlignment, pair: int = 0, gold: Gold | None = None) -> PairLinks:
        """The links of the pair with the index ``pair``, beside its ``gold`` links if they are known."""
        source, target = found.words(pair)
        sure, possible = (None, ()) if gold is None else (gold.sure.of_pair(pair), gold.possible.of_pair(pair))
        return cls(source, target, found.links.of_pair(pair), found.weights(pair), sure, possible)

    def verdicts(self) -> list[tuple[str, list[Link]]]:
        """The links by kind: right (found and possible, sure ones included), wrong (found and not possible), missing
        (sure and not found). Without gold links there is one kind, "found".
        """
        if self.sure is None:
            return [("found", list(self.found))]
        return [
            ("right", [link for link in self.found if link in self.possible]),
            ("wrong", [link for link in self.found if link not in self.possible]),
            ("missing", [link for link in self.sure if link not in self.found]),
        ]


def draw(pair: PairLinks) -> Figure:
    """A figure: a grid with source words across and target words down. A dot is a link that was found.

    A frame is a gold link: solid if it is sure, dashed if it is only possible. Raises MissingPackageError without
    matplotlib.
    """
    wide, high = CELL * max(1, len(pair.source)), CELL * max(1, len(pair.target))
    drawn = figure(wide + 1.6, high + 2.2)
    ax = drawn.subplots()
    ax.pcolormesh(pair.weights, cmap=shades(), vmin=0, vmax=1, edgecolors=PAPER, linewidth=1.5)
    ax.set_aspect("equal")
    ax.invert_yaxis()
    ax.xaxis.tick_top()
    ax.set_xticks(
        [s + 0.5 for s in range(len(pair.source))], pair.source, rotation=60, ha="left", rotation_mode="anchor"
    )
    ax.set_yticks([t + 0.5 for t in range(len(pair.target))], pair.target)
    for label in (*ax.get_xticklabels(), *ax.get_yticklabels()):
        label.set(color=INK, fontsize=10, parse_math=False)  # matplotlib would read "$" as mathematics
    ax.tick_params(length=0)
    ax.spines[:].set_color(RULE)
    _mark(ax, pair)
    told = "dot: link found" if pair.sure is None else GOLD_LEGEND
    ax.set_xlabel(f"{told}; shade: weight of the link", fontsize=8, color=FAINT)
    return drawn


def page(pair: PairLinks, title: str) -> str:
    """The text of an HTML page: the drawing, and a table of the links by kind."""
    text = io.StringIO()
    draw(pair).savefig(text, format="svg", bbox_inches="tight")
    svg = text.getvalue()
    parts = [element("div", Markup(svg[svg.index("<svg") :]), class_="links")]
    rows = [
        (kind, ", ".join(f"{pair.source[s]} – {pair.target[t]}" for s, t in links) or "none")
        for kind, links in pair.verdicts()
    ]
    sections = section("Links", *parts), section("Words", table(("kind", "source – target"), rows))
    counts = ", ".join(f"{len(links)} {kind}" for kind, links in pair.verdicts())
    return document(title, " ".join(pair.source), *sections, style=STYLE, summary=f"Links between words: {counts}.")


def write(pair: PairLinks, title: str, out: Path) -> None:
    """Writes the file ``out``: a page if its name ends with .html, otherwise a drawing (.png, .svg, .pdf or another
    format that matplotlib supports).

    Raises UserError for any other suffix, and for a pair without words on one side. Raises MissingPackageError without
    matplotlib.
    """
    if not (pair.source and pair.target):
        raise UserError(f"{title} has no words on one side, so there are no links to draw; choose another pair")
    if out.suffix == ".html":
        write_page(out, page(pair, title))
    else:
        save(draw(pair), out)


def _mark(ax: Axes, pair: PairLinks) -> None:
    from matplotlib.patches import Rectangle

    right = set(pair.found) if pair.sure is None else set(pair.possible)
    for s, t in pair.possible:
        style = "-" if (s, t) in (pair.sure or ()) else (0, (2, 1.5))
        ax.add_patch(Rectangle((s + 0.1, t + 0.1), 0.8, 0.8, fill=False, edgecolor=INK, linewidth=1.3, linestyle=style))
    for s, t in pair.found:
        color = HUES[2] if (s, t) in right else HUES[1]
        ax.plot(s + 0.5, t + 0.5, "o", markersize=6, color=color, markeredgecolor=PAPER)
