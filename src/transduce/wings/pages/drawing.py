"""SVG drawings: inside a page, or as a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transduce.wings.pages.markup import Markup, element
from transduce.wings.pages.palette import written_out

STYLE = """
svg { display: block; background: var(--paper); }
svg text { font: 12px system-ui, "DejaVu Sans", sans-serif; fill: var(--ink); } svg .faint { fill: var(--faint); }
svg line { stroke: var(--ink); }
"""


@dataclass(frozen=True)
class Drawing:
    """An SVG drawing with a width and a height in pixels. ``about`` describes it for screen readers.

    ``parts`` are SVG elements; later ones are drawn on top.
    """

    width: float
    height: float
    about: str
    parts: Sequence[Markup]

    def inline(self) -> Markup:
        """The drawing as an element of an HTML page. The page must have the style sheet."""
        return self._svg(*self.parts)

    def alone(self, style: str = "") -> str:
        """The drawing as the text of an SVG file, always in light colours. ``style`` is added to the style sheet inside
        it.
        """
        sheet = element("style", Markup(written_out(STYLE + style)))
        return self._svg(sheet, *self.parts, xmlns="http://www.w3.org/2000/svg") + "\n"

    def _svg(self, *parts: Markup, **more: str) -> Markup:
        size = {"width": f"{self.width:g}", "height": f"{self.height:g}"}
        view = f"0 0 {self.width:g} {self.height:g}"
        lines = Markup("\n" + "\n".join(parts) + "\n")
        return element("svg", lines, role="img", aria_label=self.about, viewBox=view, **size, **more)


def text(x: float, y: float, *words: str, **attributes: str | float) -> Markup:
    """An SVG text element of ``words``, joined without spaces. It begins at ``x`` unless a ``text_anchor`` or the style
    sheet says otherwise, and is centred on the height ``y``.
    """
    return element("text", *words, x=x, y=y, dy="0.35em", **attributes)


def line(x1: float, y1: float, x2: float, y2: float, **attributes: str | float) -> Markup:
    """A line element between two points."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, **attributes)


def box(x: float, y: float, width: float, height: float, **attributes: str | float) -> Markup:
    """A rectangle element. ``x`` and ``y`` are its left upper corner."""
    return element("rect", x=x, y=y, width=width, height=height, **attributes)


def path(along: str, *children: Markup, **attributes: str | float) -> Markup:
    """A path element with ``children`` inside, such as a title. ``along`` are SVG commands such as ``M0 0 L8 4``."""
    return element("path", *children, d=along, **attributes)
