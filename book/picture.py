"""Pictures of the book: a drawing for light and dark pages, and a check that its data have not changed."""

from __future__ import annotations

import io
import json
import os
import re
from dataclasses import dataclass
from html import escape
from typing import Any

from book import chapter

COLOURS = ("#3b7dd8", "#d9822b", "#2e9e6b", "#b5549c", "#7a7f87")
ACCEPT = "TRANSDUCE_BOOK_ACCEPT"  # set it to write the data instead of checking them
FAR, NEAR = 2e-2, 1e-3  # relative and absolute differences that processors may make

_drawn: dict[str, int] = {}


@dataclass(frozen=True)
class Picture:
    """A drawing as SVG, and its description for those who do not see it."""

    svg: str
    description: str

    def _repr_html_(self) -> str:
        label = escape(self.description, quote=True)
        return f'<figure class="picture" role="img" aria-label="{label}">{self.svg}</figure>'


def picture(figure: Any, description: str, **data: Any) -> Picture:
    """A picture of matplotlib's ``figure``. ``data`` are the numbers in it by name. A build of the site raises
    AssertionError if they differ from those in ``book/figures``.
    """
    number = _drawn[chapter.name] = _drawn.get(chapter.name, 0) + 1
    if data and chapter.is_build():
        _check(f"{chapter.name}.{number}", {key: _plain(value) for key, value in data.items()})
    return Picture(_svg(figure, f"{chapter.name}{number}"), description)


def axes(width: float = 7, height: float = 3, **options: Any) -> tuple[Any, Any]:
    """A figure and its axes in the book's style."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {
            "svg.fonttype": "none",
            "axes.prop_cycle": matplotlib.cycler(color=COLOURS),
            "axes.spines.top": False,
            "axes.spines.right": False,
            "legend.frameon": False,
        }
    )
    return plt.subplots(figsize=(width, height), layout="constrained", **options)


def percents(rows: dict[str, Any], columns: list[str]) -> Any:
    """A figure of percentages [rows, columns], on a colour that is stronger for larger ones, in light and dark."""
    from matplotlib.colors import to_rgba

    figure, axis = axes(height=0.5 * len(rows) + 0.7)
    axis.imshow([[to_rgba(COLOURS[0], each / 160) for each in row] for row in rows.values()], aspect="auto")
    for place, row in enumerate(rows.values()):
        for column, each in enumerate(row):
            axis.text(column, place, f"{each:.1f}", ha="center", va="center")
    axis.set(xticks=range(len(columns)), xticklabels=columns, yticks=range(len(rows)), yticklabels=list(rows))
    return figure


def _svg(figure: Any, salt: str) -> str:
    """The figure as SVG without a ground, whose black is the colour of the page's text."""
    import matplotlib
    import matplotlib.pyplot as plt

    out = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": salt}):
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    plt.close(figure)
    svg = out.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r"\b(id=\"|href=\"#|url\(#)", rf"\g<1>{salt}-", svg)
    return svg.replace("#000000", "currentColor")


def _plain(value: Any) -> Any:
    value = value.tolist() if hasattr(value, "tolist") else value
    return [_plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def _check(name: str, data: dict[str, Any]) -> None:
    path = chapter.FOLDER / "figures" / f"{name}.json"
    if os.environ.get(ACCEPT):
        path.write_text(json.dumps(data, default=float) + "\n", encoding="utf-8")
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    changed = [key for key in {*data, *kept} if not _near(data.get(key), kept.get(key))]
    assert not changed, (
        f"the picture {name} has other data than {path}: {sorted(changed)}. If the change is right, run "
        "`bash scripts/book --short --accept`"
    )


def _near(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_near, one, other))
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return abs(one - other) <= NEAR + FAR * max(abs(one), abs(other))
    return bool(one == other)
