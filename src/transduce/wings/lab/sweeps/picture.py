"""The picture of a sweep: the first metric with its spread over seeds, and the same metric by source length."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, Literal

from transduce.metrics.base import metric
from transduce.wings.lab.sweeps.curves import by_length, short_names
from transduce.wings.lab.sweeps.results import ResultRow, SweepResults
from transduce.wings.lab.sweeps.table import PICTURE
from transduce.wings.pages.palette import FAINT, HUES, INK, PAPER, RULE
from transduce.wings.pages.plots import figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HIGH, PANEL = 0.34, 1.5  # inches: of a row, of a small curve
MARKS = {"o": "-", "s": "--", "^": ":"}  # line styles

Look = dict[str, Any]  # arguments of matplotlib's ``plot``


def draw(results: SweepResults) -> None:
    """Writes results.png into the sweep's folder; nothing if no cell is finished.

    Raises MissingPackageError, which is an ImportError, without matplotlib.
    """
    name = next(iter(results.metrics), None)
    rows = [row for row in results.rows if name is not None and row.score(name).values]
    if name is None or not rows:
        return
    curves = [by_length(row, name) for row in rows]
    bent = any(len(curve) > 1 for curve in curves)
    across = min(len(rows), 3 if len(rows) > 4 else 2)
    down = -(-len(rows) // across)
    high = max(3.6, 1.5 + HIGH * len(rows), 1.1 + PANEL * down if bent else 0.0)
    drawn = figure(12 if bent else 6.5, high)
    looks = _looks(len(rows))
    parts: Any = drawn.subfigures(1, 2) if bent else (drawn, None)
    left, right = parts
    axes: Axes = left.subplots()
    _scores(axes, rows, name, looks)
    if right is not None:
        unit = results.measurements[0].length_unit
        _lengths(list(right.subplots(down, across, squeeze=False, sharex=True, sharey=True).flat), curves, looks, rows)
        right.supxlabel(f"{unit} in the source; the other variants are grey", color=FAINT, fontsize=9)
        right.suptitle(f"{name} by the length of the source", x=0.02, ha="left", fontsize=11, color=INK)
    less = "" if metric(name).higher_is_better else ", less is better"
    fewest, most = (extreme(len(row.cells) for row in rows) for extreme in (min, max))
    over = "one seed" if most == 1 else f"mean and range of {'up to ' * (fewest < most)}{most} seeds"
    axes.set_title(f"{name} on {results.measurements[0].split}{less} ({over})", loc="left", fontsize=11, color=INK)
    save(drawn, results.out / PICTURE)


def _scores(ax: Axes, rows: Sequence[ResultRow], name: str, looks: Sequence[Look]) -> None:
    """One row per variant, in the table's order from the top: a dot per seed, and a bar and a number for the mean."""
    for y, (row, look) in enumerate(zip(rows, looks, strict=True)):
        score, color = row.score(name), look["color"]
        ax.plot([score.low, score.high], [y, y], color=color, linewidth=2, alpha=0.4)
        dots = look | {"linestyle": "none", "markersize": 6.5, "markeredgecolor": PAPER}
        ax.plot(score.values, [y] * len(score.values), **dots)
        if len(score.values) > 1:
            ax.plot([score.mean], [y], "|", color=color, markersize=17, markeredgewidth=2)
        ax.annotate(
            f"{score.mean:.1f}", (score.high, y), (8, 0), textcoords="offset points", va="center", fontsize=9, color=INK
        )
    ax.set_yticks(range(len(rows)), short_names([row.variant.name for row in rows]), parse_math=False)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.margins(x=0.14)
    _plain(ax, "x")


def _lengths(
    axes: Sequence[Axes],
    curves: Sequence[Sequence[tuple[float, float]]],
    looks: Sequence[Look],
    rows: Sequence[ResultRow],
) -> None:
    """A panel for each variant, with the colour and the mark of its row. The other curves are grey behind it, so no
    curve hides another one.
    """
    for place, (ax, name) in enumerate(zip(axes, short_names([row.variant.name for row in rows]), strict=False)):
        for other, curve in enumerate(curves):
            if other != place and curve:
                ax.plot(*zip(*curve, strict=True), color=RULE, linewidth=1)
        if curves[place]:
            ax.plot(*zip(*curves[place], strict=True), **looks[place], linewidth=1.8, markersize=4)
        ax.set_title(name.replace(",", ",\n"), loc="left", fontsize=8, color=INK, parse_math=False)
        _plain(ax, "both")
    for ax in axes[len(rows) :]:
        ax.set_visible(False)


def _looks(count: int) -> list[Look]:
    """Colour, marker and line style of each row. All colours are used with one marker and line style, then with the
    next.
    """
    looks = [{"color": hue, "marker": mark, "linestyle": line} for mark, line in MARKS.items() for hue in HUES]
    return list(islice(cycle(looks), count))


def _plain(ax: Axes, grid: Literal["x", "both"]) -> None:
    ax.grid(axis=grid, color=RULE, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0, labelsize=9, labelcolor=INK)
