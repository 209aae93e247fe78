"""Things to touch in a page: a table that fills, weights that one points at, a dial, a model. They need no server.

A cell computes the data. ``static/touch.js`` shows them, with the mouse and with the keyboard.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import count
from pathlib import Path
from typing import Any

from book import chapter
from transduce.runs.run import Run
from transduce.wings.engines.export.engine import compared_content
from transduce.wings.engines.web.page import page

_numbers = count(1)


@dataclass(frozen=True)
class Touch:
    """A thing to touch. In Jupyter it brings its program along; the site loads the program once."""

    kind: str
    title: str
    data: Mapping[str, Any]

    def _repr_html_(self) -> str:
        data = json.dumps(self.data, ensure_ascii=False).replace("<", "\\u003c")
        mark = f"touch-{next(_numbers)}"
        html = (
            f'<div class="touch" id="{mark}" data-kind="{self.kind}" role="group" '
            f'aria-label="{escape(self.title, quote=True)}"><p class="touch-title">{escape(self.title)}</p>'
            f'<script type="application/json">{data}</script></div>'
        )
        if chapter.is_build():
            return html
        style, program = (
            (chapter.FOLDER / "static" / name).read_text(encoding="utf-8") for name in ("touch.css", "touch.js")
        )
        return f"<style>{style}</style>{html}<script>{program}</script>"


def table(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[Sequence[Any]],
    steps: Sequence[Mapping[str, Any]],
) -> Touch:
    """A table that fills step by step. ``cells`` [rows, columns] are its texts. A step has ``cells``, the [row, column]
    pairs that it fills, ``origins``, the pairs that it looks at, and a ``note``.
    """
    texts = [[_text(cell) for cell in row] for row in cells]
    return Touch("table", title, {"rows": rows, "columns": columns, "cells": texts, "steps": steps})


def pointing(title: str, above: Sequence[str], below: Sequence[str], weights: Any) -> Touch:
    """Weights [above, below]: point at one of the tokens ``above`` and see how much each token ``below`` weighs."""
    rounded = [[round(float(weight), 3) for weight in row] for row in weights]
    return Touch("pointing", title, {"above": above, "below": below, "weights": rounded})


def dial(title: str, name: str, frames: Sequence[Mapping[str, Any]]) -> Touch:
    """A dial with a frame for each place. A frame has a ``label``, ``bars`` (pairs of a text and a number from 0 to 1),
    and a ``note``.
    """
    shown = [
        {**frame, "bars": [[text, round(float(size), 4)] for text, size in frame.get("bars", ())]} for frame in frames
    ]
    return Touch("dial", title, {"name": name, "frames": shown})


@dataclass(frozen=True)
class Page:
    """A page inside the page."""

    title: str
    html: str

    def _repr_html_(self) -> str:
        title, inside = escape(self.title), escape(self.html)
        return f'<iframe class="touch-page" title="{title}" srcdoc="{inside}"></iframe>'


def model(title: str, run: Path) -> Page:
    """A trained model that answers what a reader types, on the engine in WebAssembly. Raises UserError if the engine
    refuses the run.
    """
    found = Run.open(run)
    file, _ = compared_content(found, "best", found.examples("valid")[:20], "int8")
    return Page(title, page(title, file, subwords=False))


def _text(cell: Any) -> str:
    return f"{cell:.2f}".rstrip("0").rstrip(".") if isinstance(cell, float) else str(cell)
