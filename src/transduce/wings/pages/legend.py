"""Legends of shades: what the palest and the darkest colour of a drawing mean."""

from __future__ import annotations

from transduce.wings.pages.markup import Markup, element

STYLE = """
.scale { display: flex; align-items: center; gap: .5rem; font-size: .85rem; color: var(--faint); }
.scale i { display: block; width: 7rem; height: .7rem; border: 1px solid var(--rule); border-radius: 3px; }
"""


def scale(low: str, high: str, hue: str = "blue", negative: str = "") -> Markup:
    """A line with the colours from ``low`` to ``high``. ``hue`` is the colour of the highest value. ``negative`` is
    that of the lowest one, if colours are palest in the middle.
    """
    colours = ([f"var(--{negative})"] if negative else []) + ["transparent", f"var(--{hue})"]
    shades = f"background: linear-gradient(to right, {', '.join(colours)})"
    return element("p", element("span", low), element("i", style=shades), element("span", high), class_="scale")
