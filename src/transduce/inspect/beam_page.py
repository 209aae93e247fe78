"""A beam's tree as a page: one file of HTML and SVG, no script, nothing fetched."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from transduce.inspect.beams import BeamTree, Node

ROW, LETTER, GAP = 26, 7.6, 46  # pixels: between rows, the width of a letter, between columns
MARGIN, SCORE = 18, 90  # around the drawing, and behind the last column

STYLE = """
:root { color-scheme: light dark; --ink: #1f2933; --faint: #9aa5b1; --line: #cbd2d9; --best: #0b69a3; --paper: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7eb; --faint: #7b8794; --line: #3e4c59; --best: #62b0e8; --paper: #1a1f24; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem; }
h1 { font-size: 1.2rem; } p { max-width: 60rem; }
table { border-collapse: collapse; margin: 1rem 0; } td, th { padding: .2rem .8rem .2rem 0; text-align: left; }
td:first-child, th:first-child { text-align: right; font-variant-numeric: tabular-nums; }
.view { overflow-x: auto; display: none; }
#kept:checked ~ .kept, #all:checked ~ .all { display: block; }
svg text { font: 13px ui-monospace, monospace; fill: var(--ink); }
svg .pruned text { fill: var(--faint); } svg .best text { fill: var(--best); font-weight: 600; }
svg path { fill: none; stroke: var(--line); } svg path.best { stroke: var(--best); }
svg path.pruned { stroke-dasharray: 3 3; }
svg .score { font-size: 11px; }
"""


def page(tree: BeamTree) -> str:
    """The tree with its outputs in a table; what was pruned can be shown and hidden."""
    outputs = "".join(
        f"<tr><td>{hypothesis.score:.3f}</td><td>{hypothesis.log_prob:.3f}</td><td>{escape(text)}</td></tr>"
        for hypothesis, text in zip(tree.hypotheses, tree.texts, strict=True)
    )
    kept = tree.root.without_pruned()
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(tree.source)}</title><style>{STYLE}</style></head><body>
<h1>What the search saw of “{escape(tree.source)}”</h1>
<table><tr><th>score</th><th>log-probability</th><th>output</th></tr>{outputs}</table>
<p>Each token continues the one to its left. The wider the line, the more probable the token; rest on one to see its
log-probability and that of all up to it. <b>■</b> finished.</p>
<input type="radio" name="view" id="kept" checked><label for="kept">what was in the beam</label>
<input type="radio" name="view" id="all"><label for="all">and what was pruned</label>
<div class="view kept">{drawing(kept)}</div><div class="view all">{drawing(tree.root)}</div>
</body></html>
"""


@dataclass(frozen=True)
class _Placed:
    """A node at its column (how many tokens stand before it) and its row."""

    node: Node
    column: int
    row: int
    parent: _Placed | None


def drawing(root: Node) -> str:
    """The tree as SVG, the best child of a node straight to its right."""
    placed = _placed(root)
    widest = [0] * (1 + max(each.column for each in placed))
    for each in placed:
        widest[each.column] = max(widest[each.column], len(each.node.token))
    left = [MARGIN + sum(widest[:column]) * LETTER + column * GAP for column in range(len(widest))]
    width, height = left[-1] + widest[-1] * LETTER + SCORE, 2 * MARGIN + ROW * max(each.row for each in placed)
    drawn = "\n".join(_edge(each, left) + _label(each, left) for each in placed)
    return f'<svg width="{width:.0f}" height="{height}" role="img" aria-label="the tree">\n{drawn}\n</svg>'


def _placed(root: Node) -> list[_Placed]:
    """Every node, parents first: a first child in the row of its parent, each other one below all before it."""
    placed: list[_Placed] = []
    waiting: list[tuple[Node, _Placed | None, bool]] = [(root, None, True)]
    below = 0
    while waiting:
        node, parent, first = waiting.pop()
        below += not first
        row = parent.row if parent is not None and first else below
        placed.append(_Placed(node, 0 if parent is None else parent.column + 1, row, parent))
        here = placed[-1]
        waiting += [(child, here, number == 0) for number, child in reversed(list(enumerate(node.children)))]
    return placed


def _kind(node: Node) -> str:
    return "best" if node.best else node.fate


def _edge(placed: _Placed, left: Sequence[float]) -> str:
    """Along the row of the parent, or from there, just before the column of the child, to the child's row."""
    parent = placed.parent
    if parent is None:
        return ""
    behind, end = left[parent.column] + LETTER * len(parent.node.token) + 4, left[placed.column] - 5
    above, y = MARGIN + parent.row * ROW, MARGIN + placed.row * ROW
    turn, bend = end - GAP + 10, (GAP - 10) / 2
    line = f"M{behind:.0f} {y} H{end:.0f}"
    if y != above:
        line = f"M{turn:.0f} {above} C{turn + bend:.0f} {above} {end - bend:.0f} {y} {end:.0f} {y}"
    width = 1 + 4 * math.exp(placed.node.log_prob)
    return f'<path class="{_kind(placed.node)}" stroke-width="{width:.1f}" d="{line}"/>'


def _label(placed: _Placed, left: Sequence[float]) -> str:
    node, x, y = placed.node, left[placed.column], MARGIN + placed.row * ROW + 4
    behind = ""
    if node.fate == "finished":
        score = "" if node.score is None else f"{node.score:.3f}"
        behind = f'<tspan class="score" x="{x + LETTER * len(node.token) + 6:.0f}">■ {score}</tspan>'
    told = f"log p {node.log_prob:.3f} (p {math.exp(node.log_prob):.3f}), with all before it {node.total:.3f}"
    return (
        f'<g class="{_kind(node)}"><title>{told}</title>'
        f'<text x="{x:.0f}" y="{y}">{escape(node.token)}{behind}</text></g>'
    )
