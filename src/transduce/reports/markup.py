"""HTML that is escaped by construction: text becomes markup in ``element`` alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


class Markup(str):
    """HTML; any other string is text, and is escaped where it enters HTML."""

    __slots__ = ()


def element(name: str, *children: str, **attributes: str | float) -> Markup:
    """``element("td", "a < b", class_="number")``; in the names of attributes ``_`` at the end is left out, and stands
    for ``-`` elsewhere."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_written(value))}"' for key, value in attributes.items()
    )
    return Markup(f"<{name}{given}>{joined(children)}</{name}>")


def joined(children: Iterable[str], between: str = "") -> Markup:
    return Markup(between.join(each if isinstance(each, Markup) else escape(each) for each in children))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """The first column names the row."""
    cells = [element("tr", *(element("th", each, scope="col") for each in head))]
    body = [
        element("tr", element("th", first, scope="row"), *(element("td", each) for each in rest))
        for first, *rest in rows
    ]
    inside = element("table", element("thead", *cells), element("tbody", *body))
    return element("div", inside, class_="wide")


def _written(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
