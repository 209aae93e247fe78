"""The picture of a sweep: the first metric with its spread over seeds, and the same metric by source length."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import cycle, islice
from statistics import fmean
from typing import TYPE_CHECKING, Any

from transduce.metrics.base import metric
from transduce.wings.lab.sweeps.grid import shared
from transduce.wings.lab.sweeps.results import ResultRow, SweepResults
from transduce.wings.lab.sweeps.table import PICTURE
from transduce.wings.pages.palette import FAINT, HUES, INK, PAPER, RULE
from transduce.wings.pages.plots import figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HIGH = 0.34  # inches per row
MARKS = {"o": "-", "s": "--", "^": ":"}  # line styles


def draw(results: SweepResults) -> None:
    """Writes results.png into the sweep's folder; nothing if no cell is finished.

    Raises MissingPackageError, which is an ImportError, without matplotlib.
    """
    name = next(iter(results.metrics), None)
    rows = [row for row in results.rows if name is not None and row.score(name).values]
    if name is None or not rows:
        return
    curves = [_curve(row, name) for row in rows]
    bent = any(len(curve) > 1 for curve in curves)
    drawn = figure(11 if bent else 6.5, max(3.6, 1.5 + HIGH * len(rows)))
    axes = drawn.subplots(1, 2 if bent else 1, squeeze=False)[0]
    looks = _looks(len(rows))
    _scores(axes[0], rows, name, looks)
    if bent:
        found = results.measurements[0]
        _lengths(axes[1], curves, looks)
        axes[1].set_xlabel(f"{found.length_unit} in the source", color=FAINT)
        title = f"{name} by the length of the source, marked as on the left"
        axes[1].set_title(title, loc="left", fontsize=11, color=INK)
    less = "" if metric(name).higher_is_better else ", less is better"
    fewest, most = (extreme(len(row.cells) for row in rows) for extreme in (min, max))
    over = "one seed" if most == 1 else f"mean and range of {'up to ' * (fewest < most)}{most} seeds"
    axes[0].set_title(f"{name} on {results.measurements[0].split}{less} ({over})", loc="left", fontsize=11, color=INK)
    save(drawn, results.out / PICTURE)


def _scores(ax: Axes, rows: Sequence[ResultRow], name: str, looks: Sequence[dict[str, Any]]) -> None:
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
    ax.set_yticks(range(len(rows)), _labels([row.variant.name for row in rows]), parse_math=False)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.margins(x=0.14)
    _plain(ax, "x")


def _lengths(ax: Axes, curves: Sequence[Sequence[tuple[float, float]]], looks: Sequence[dict[str, Any]]) -> None:
    """One line per variant, with the colour and the mark of its row."""
    for curve, look in reversed(list(zip(curves, looks, strict=True))):  # the best is drawn last, on top
        ax.plot(*zip(*curve, strict=True), **look, linewidth=1.8, markersize=5, markeredgecolor=PAPER)
    _plain(ax, "both")


def _curve(row: ResultRow, name: str) -> list[tuple[float, float]]:
    """For each group of sources, shortest first: the mean length and the mean score over the variant's seeds."""
    points: dict[float, list[float]] = defaultdict(list)
    for found in row.cells.values():
        for each in found.lengths:
            if name in each.scores:
                points[each.mean].append(each.scores[name])
    return [(length, fmean(scores)) for length, scores in sorted(points.items())]


def _looks(count: int) -> list[dict[str, Any]]:
    """Colour, marker and line style of each row. All colours are used with one marker and line style, then with the
    next.
    """
    looks = [{"color": hue, "marker": mark, "linestyle": line} for mark, line in MARKS.items() for hue in HUES]
    return list(islice(cycle(looks), count))


def _labels(names: Sequence[str]) -> list[str]:
    """The names without their common prefix."""
    return [name.removeprefix(f"{shared(names)}-") for name in names]


def _plain(ax: Axes, grid: Any) -> None:
    ax.grid(axis=grid, color=RULE, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0, labelsize=9, labelcolor=INK)
