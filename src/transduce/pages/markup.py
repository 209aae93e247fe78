"""Markup that is always escaped: text becomes HTML or SVG only in ``element`` and ``joined``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

VOID = {"br", "img", "input", "meta"}  # elements without content or closing tag


class Markup(str):
    """HTML or SVG. Any other string is text and is escaped when it enters."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: str | float) -> Markup:
    """An element, for example ``element("td", "a < b", class_="number")``.

    In attribute names a final ``_`` is removed, and other ``_`` become ``-``.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_written(value))}"' for key, value in attributes.items()
    )
    return Markup(f"<{name}{given}>" if name in VOID else f"<{name}{given}>{joined(children)}</{name}>")


def joined(children: Iterable[str], between: str = "") -> Markup:
    return Markup(_escaped(between).join(map(_escaped, children)))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> Markup:
    """A table. The first column names the row."""
    cells = [element("tr", *(element("th", each, scope="col") for each in head))]
    body = [
        element("tr", element("th", first, scope="row"), *(element("td", each) for each in rest))
        for first, *rest in rows
    ]
    above = [element("caption", caption)] if caption else []
    inside = element("table", *above, element("thead", *cells), element("tbody", *body))
    return element("div", inside, class_="wide")


def _escaped(text: str) -> str:
    return text if isinstance(text, Markup) else escape(text)


def _written(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
