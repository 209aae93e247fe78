"""Markup: ``element`` and ``joined`` turn text into HTML or SVG and escape it. ``Markup(...)`` itself escapes
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

VOID = {"br", "img", "input", "link", "meta"}  # elements without content or closing tag


class Markup(str):
    """HTML or SVG. Any other string is plain text, which ``element`` and ``joined`` escape."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: str | float) -> Markup:
    """An element, for example ``element("td", "a < b", class_="number")``. Children that are not Markup, and values of
    attributes, are escaped.

    An attribute's name loses its final ``_``, and any other ``_`` becomes ``-``: ``class_`` is class, ``stroke_width``
    is stroke-width.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_written(value))}"' for key, value in attributes.items()
    )
    return Markup(f"<{name}{given}>" if name in VOID else f"<{name}{given}>{joined(children)}</{name}>")


def joined(children: Iterable[str], between: str = "") -> Markup:
    """The children as one piece of markup, with ``between`` between them. Strings that are not Markup are escaped."""
    return Markup(_escaped(between).join(map(_escaped, children)))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> Markup:
    """An HTML table that scrolls if it is too wide. The first cell of each row is the row's heading."""
    cells = [element("tr", *(element("th", each, scope="col") for each in head))]
    body = [
        element("tr", element("th", first, scope="row"), *(element("td", each) for each in rest))
        for first, *rest in rows
    ]
    above = [element("caption", caption)] if caption else []
    return scrolling(element("table", *above, element("thead", *cells), element("tbody", *body)), caption or "table")


def scrolling(inside: Markup, about: str) -> Markup:
    """A table or drawing that scrolls if it is too wide. A shadow at its edge then tells so, and the keyboard reaches
    it. ``about`` names it for screen readers.
    """
    return element("div", inside, class_="wide", tabindex="0", role="group", aria_label=about)


def _escaped(text: str) -> str:
    return text if isinstance(text, Markup) else escape(text)


def _written(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
