"""The colours of all pages and pictures, on light and on dark paper."""

from __future__ import annotations

import re

LIGHT = {
    "ink": "#1f2933",
    "faint": "#586470",
    "rule": "#e1e5ea",
    "paper": "#ffffff",
    "card": "#f6f8fa",
    "blue": "#1d4ed8",
    "orange": "#c2410c",
    "green": "#0b7a53",
    "red": "#be185d",
    "violet": "#7048e8",
    "ochre": "#8f7000",
    "teal": "#0b7285",
    "grey": "#868e96",
    "blue-wash": "#dbe6ff",
    "orange-wash": "#fde2d4",
    "shadow": "#9aa5b1",
}
DARK = {
    "ink": "#e4e7eb",
    "faint": "#a9b4c1",
    "rule": "#323c48",
    "paper": "#161b22",
    "card": "#1e252e",
    "blue": "#8fb0ff",
    "orange": "#ffa26b",
    "green": "#63d3a6",
    "red": "#ff8fb4",
    "violet": "#b8a1ff",
    "ochre": "#e3c15a",
    "teal": "#6fcbdb",
    "grey": "#a5aeb8",
    "blue-wash": "#26386b",
    "orange-wash": "#5a3320",
    "shadow": "#6b7785",
}

INK, FAINT, RULE, PAPER = (LIGHT[name] for name in ("ink", "faint", "rule", "paper"))
HUES = [LIGHT[name] for name in ("blue", "orange", "green", "red", "violet", "ochre", "teal", "grey")]
"""Colours that are easy to tell apart, the best ones first."""
SHADES = [LIGHT["card"], "#c5d5fb", "#7f9ff2", LIGHT["blue"], "#142a6e"]
"""Shades for 0, 1/4, 1/2, 3/4 and 1: from the palest to the darkest."""


def variables() -> str:
    """CSS that defines all colours as variables such as ``var(--ink)``, for light and for dark mode."""
    light, dark = (" ".join(f"--{name}: {color};" for name, color in colors.items()) for colors in (LIGHT, DARK))
    chosen = f"@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"
    return f":root {{ color-scheme: light dark; {light} }}\n{chosen}"


def written_out(style: str) -> str:
    """The style sheet with light colours in place of variables, for programs that do not know CSS variables."""
    return re.sub(r"var\(--([\w-]+)\)", lambda found: LIGHT[found[1]], style)
