"""The tree of a search as a page: one file of HTML and SVG, without scripts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from transduce.core.types import Derivation, Hypothesis
from transduce.metrics.units import columns, shown
from transduce.wings.looking.inspection.tree import Node, SearchTree, branches, parents_first
from transduce.wings.pages.drawing import Drawing, path, text
from transduce.wings.pages.markup import Markup, element, joined, scrolling, table
from transduce.wings.pages.page import document, foreign, notes, section

ROW, LETTER, GAP = 26, 7.9, 46  # pixels: between rows, the width of a letter, between columns
MARGIN, SCORE = 18, 90  # pixels: around the drawing, and after the last column
SMALL = 0.86  # the width of a letter of a note, in letters of a label

STYLE = """
fieldset { border: 0; padding: 0; margin: 0; min-width: 0; } legend { float: left; margin-right: .8rem; }
label { display: inline-block; margin-right: 1.2rem; } .view { display: none; margin-top: 1rem; }
.tree:has(#kept:checked) .kept, .tree:has(#all:checked) .all { display: block; }
svg .node { font: 13px ui-monospace, "DejaVu Sans Mono", monospace; } svg .score { font-size: 11px; }
svg .pruned text, svg .recombined text { fill: var(--faint); } svg .best text { fill: var(--blue); font-weight: 600; }
svg .edge { fill: none; stroke: var(--faint); stroke-opacity: .45; }
svg .edge.best { stroke: var(--blue); stroke-opacity: 1; } svg .edge.pruned { stroke-dasharray: 3 3; }
svg .edge.recombined { stroke-dasharray: 9 3; }
"""


@dataclass(frozen=True)
class Story:
    """The texts of a page about one kind of search: the line under its title, the notes below the outputs, what the
    drawing shows, and the labels of its two choices. ``limit`` is the largest number of nodes in a drawing; None for no
    limit. ``probable`` says whether the outputs have log-probabilities.
    """

    about: str
    ranked: str
    told: str
    kept: str
    every: str
    limit: int | None = None
    probable: bool = True


BEAM = Story(
    "What the search saw of it",
    "The best comes first: outputs are ranked by their score, and the log-probability is the model's own.",
    "Each token continues the one to its left; the best output runs along the top, in blue. The wider the line, "
    "the more probable the token; rest on one to see its log-probability and that of all up to it. ■ is a finished "
    "output, with the score of what was returned.",
    "what was in the beam",
    "and what was pruned",
)
STACKS = Story(
    "The stacks of the search",
    "The best comes first. A score is the weighted sum of features; it is no log-probability.",
    "Each phrase (source → target) continues the hypothesis to its left. The best output runs along the top, in blue. "
    "The first small number is the stack: the number of covered source tokens. The second is the score so far. Rest on "
    "a phrase to see what it adds, and the score plus the guess for the rest of the source, by which a stack compares "
    "its hypotheses. A line of long dashes leads to a hypothesis that was merged into a better one (recombined), and a "
    "line of short dashes to one that was pruned. ■ is a finished output. Expansions that the language models did not "
    "score (search.pool, search.threshold) are not drawn.",
    "what the stacks kept",
    "and what was pruned or recombined",
    limit=300,
    probable=False,
)


def page(tree: SearchTree, pruned: bool = False, story: Story = BEAM) -> str:
    """The text of an HTML page with the outputs in a table and the tree. The reader can show or hide pruned
    nodes.

    ``pruned`` says whether they are shown at first. ``story`` has the texts for this kind of search, and the limit of
    the drawings.
    """
    outputs = [
        [foreign(output), f"{hypothesis.score:.3f}", *_probability(hypothesis)]
        for hypothesis, output in zip(tree.hypotheses, tree.texts, strict=True)
    ]
    columns = ["output", "score", "log-probability"] if story.probable else ["output", "score"]
    kept = tree.root.without_pruned()
    drawn = element(
        "div",
        element(
            "fieldset",
            element("legend", "Show"),
            _choice("kept", story.kept, not pruned),
            _choice("all", story.every, pruned),
        ),
        element("div", scrolling(joined(_view(kept, story.limit)), "the tree"), class_="view kept"),
        element("div", scrolling(joined(_view(tree.root, story.limit)), "the whole tree"), class_="view all"),
        class_="tree",
    )
    summary = element("summary", "the tree as text")
    lines = element("details", summary, element("pre", "\n".join(branches(_limited(kept, story.limit))), lang=""))
    return document(
        tree.source,
        story.about,
        section("Outputs", table(columns, outputs), notes(story.ranked)),
        section("The tree", element("p", story.told, class_="faint"), drawn, lines),
        style=STYLE,
        heading=foreign(tree.source),
        summary=_summary(tree, kept),
    )


def _summary(tree: SearchTree, kept: Node) -> str:
    """The best output, the next one, and how much the search kept."""
    count, every = len(parents_first(kept)) - 1, len(parents_first(tree.root)) - 1
    told = f"The search made {every:,} hypotheses and kept {count:,}."
    if not tree.texts:
        return told
    told = f"{told} The best output: “{tree.texts[0]}”"
    if len(tree.hypotheses) > 1:
        apart = tree.hypotheses[0].score - tree.hypotheses[1].score
        told += f", before “{tree.texts[1]}” with a score that is {apart:.2f} lower"
    return f"{told}."


def svg(tree: SearchTree, pruned: bool = False, story: Story = BEAM) -> str:
    """The tree alone as the text of an SVG file. ``pruned`` also shows pruned and recombined hypotheses. ``story`` has
    the limit of the drawing.
    """
    root = tree.root if pruned else tree.root.without_pruned()
    return drawing(_limited(root, story.limit)).alone(STYLE)


def _probability(output: Hypothesis | Derivation) -> list[str]:
    return [f"{output.log_prob:.3f}"] if isinstance(output, Hypothesis) else []


def _limited(root: Node, limit: int | None) -> Node:
    return root if limit is None else root.limited(limit)


def _view(root: Node, limit: int | None) -> list[Markup]:
    """The drawing, and before it a line that says how many nodes are left out, if any are."""
    every, shown = len(parents_first(root)), _limited(root, limit)
    drawn = drawing(shown).inline()
    if (few := len(parents_first(shown))) == every:
        return [drawn]
    left_out = f"{few:,} of {every:,} hypotheses are drawn: the best path, then those with the best scores."
    return [element("p", left_out, class_="faint"), drawn]


def _choice(name: str, label: str, chosen: bool) -> Markup:
    checked = {"checked": ""} if chosen else {}
    return element("label", element("input", type="radio", name="view", id=name, **checked), f" {label}")


@dataclass(frozen=True)
class _Placed:
    """A node with its column, which is its number of preceding tokens, its row, counted from 0 at the top, and its
    parent's place (None for the root).
    """

    node: Node
    column: int
    row: int
    parent: _Placed | None


def drawing(root: Node) -> Drawing:
    """The tree from left to right. The first child of each node is in the same row as the node, so the best path is one
    row.
    """
    placed = _placed(root)
    widest = [0] * (1 + max(each.column for each in placed))
    for each in placed:
        widest[each.column] = max(widest[each.column], _columns(each.node))
    left = [MARGIN + sum(widest[:column]) * LETTER + column * GAP for column in range(len(widest))]
    width, height = left[-1] + widest[-1] * LETTER + SCORE, 2 * MARGIN + ROW * max(each.row for each in placed)
    edges = [_edge(each, left) for each in reversed(placed)]  # the best path is drawn last, on top
    return Drawing(
        round(width),
        height,
        "the tree of the search; the same is below as text",
        [*edges, *(_label(each, left) for each in placed)],
    )


def _placed(root: Node) -> list[_Placed]:
    """All nodes with their places, parents first. A first child is in its parent's row.

    Any other child is in a new row below all earlier ones in its columns. Its columns go from its own to one beyond the
    end of its chain of first children, so that no lines cross.
    """
    placed: list[_Placed] = []
    lowest: defaultdict[int, int] = defaultdict(lambda: -1)  # for each column, the last row in use
    waiting: list[tuple[Node, _Placed | None, bool]] = [(root, None, False)]
    while waiting:
        node, parent, first = waiting.pop()
        column = 0 if parent is None else parent.column + 1
        if parent is not None and first:
            row = parent.row
        else:
            span = range(column, column + _reach(node) + 1)  # plus one empty column
            row = 1 + max(lowest[each] for each in span)
            lowest.update(dict.fromkeys(span, row))
        here = _Placed(node, column, row, parent)
        placed.append(here)
        waiting += [(child, here, number == 0) for number, child in reversed(list(enumerate(node.children)))]
    return placed


def _reach(node: Node) -> int:
    """The number of columns of the chain of first children that starts at the node: the node, its first child, and so
    on.
    """
    columns = 1
    while node.children:
        node, columns = node.children[0], columns + 1
    return columns


def _word(node: Node) -> str:
    """The text of a node's label in the drawing. In a token, a space is made visible; in a phrase, spaces separate
    words. A lone accent gets a base character.
    """
    if node.details:
        return " ".join(shown(word) if word else "" for word in node.label.split(" "))
    return shown(node.label)


def _columns(node: Node) -> int:
    """The width of a node's label and note, in letters of the label."""
    return columns(_word(node)) + (1 + math.ceil(columns(node.note) * SMALL) if node.note else 0)


def _kind(node: Node) -> str:
    return "best" if node.best else node.fate


def _edge(placed: _Placed, left: Sequence[float]) -> Markup:
    """The line from a parent to its child; nothing for the root. It changes the row just before the child's column.

    A node that adds a higher log-probability or score has a wider line; 0 and more have the widest.
    """
    parent = placed.parent
    if parent is None:
        return Markup()
    behind, end = left[parent.column] + LETTER * _columns(parent.node) + 5, left[placed.column] - 6
    above, y = MARGIN + parent.row * ROW, MARGIN + placed.row * ROW
    turn, bend = end - GAP + 10, (GAP - 10) / 2
    along = f"M{behind:.0f} {y} H{end:.0f}"
    if y != above:
        along = f"M{turn:.0f} {above} C{turn + bend:.0f} {above} {end - bend:.0f} {y} {end:.0f} {y}"
    width = f"{1 + 3 * math.exp(min(0.0, placed.node.added)):.1f}"
    return path(along, class_=f"edge {_kind(placed.node)}", stroke_width=width)


def _label(placed: _Placed, left: Sequence[float]) -> Markup:
    node, x = placed.node, left[placed.column]
    words: list[str] = [_word(node)]
    after = f"{x + LETTER * columns(_word(node)) + 6:.0f}"
    if node.note:
        words.append(element("tspan", node.note, class_="score", x=after))
    if node.fate == "finished":
        score = "" if node.score is None else f"{node.score:.3f}"
        words.append(element("tspan", f"■ {score}", class_="score", x=after))
    told = f"log p {node.added:.3f} (p {math.exp(min(0.0, node.added)):.3f}), with all before it {node.total:.3f}"
    if node.details:
        values = ", ".join(f"{name} {_value(value)}" for name, value in node.details)
        told = f"{values}; adds {node.added:.3f}, with the guess for the rest {node.total:.3f}; {node.fate}"
    label = text(round(x), MARGIN + placed.row * ROW, *words, class_="node")
    return element("g", element("title", told), label, class_=_kind(node))


def _value(value: str | int | float) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
