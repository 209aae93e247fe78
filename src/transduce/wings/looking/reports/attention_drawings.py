"""Drawings of attention between two lines of tokens: a heat map, and lines from word to word.

T target tokens, S source tokens.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from torch import Tensor

from transduce.metrics.units import columns
from transduce.wings.pages.direction import from_right
from transduce.wings.pages.drawing import Drawing, box, line, path, text
from transduce.wings.pages.markup import Markup, element

LETTER, GAP = 7.6, 16  # pixels: the width of a letter, between words
HIGH = 150  # pixels between two lines of words
FAINT = 0.01  # weights below are not drawn
LINE = 0.05  # weights below have no line
LARGE = 4000  # cells: a larger map has small cells, which are drawn row by row
LEVELS = 16  # shades of a large map
TOLD = 5  # weights that a row of a large map tells

STYLE = """
svg .cell { fill: var(--blue); } svg .ground { fill: none; stroke: var(--rule); }
svg .link { stroke: var(--blue); stroke-width: 2; }
"""


def heat_map(source: Sequence[str], target: Sequence[str], weights_TS: Tensor, small: bool = False) -> Drawing:
    """A grid with source tokens across and target tokens down; a darker cell has a larger weight. Weights below 0.01
    are not drawn. The mouse shows the weight of a cell.

    A source that is written from right to left stands in this order. If there are more than 4,000 cells, there are 16
    shades, and the mouse shows the five largest weights of a row: a title for each cell would fill the file. A
    ``small`` map has no words beside it, and a frame.
    """
    large = len(source) * len(target) > LARGE
    size = 14 if large else 24
    size = size // 2 if small else size
    if from_right(source):
        source, weights_TS = source[::-1], weights_TS.flip(1)
    left = 1 if small else 12 + LETTER * max(map(columns, target), default=1)
    above = 1 if small else 12 + LETTER * 0.8 * max(map(columns, source), default=1)
    parts = [
        text(0, 0, token, transform=f"translate({left + size * (s + 0.5):.4g} {above - 6:.4g}) rotate(-55)")
        for s, token in enumerate(source)
        if not small
    ]
    for t, (token, row) in enumerate(zip(target, weights_TS.tolist(), strict=True)):
        y = above + size * t
        if not small:
            parts.append(text(left - 6, y + size / 2, token, text_anchor="end"))
        drawn = _row if large else _cells
        parts += drawn(token, source, row, left, y, size)
    right = LETTER * 0.6 * max(map(columns, source[-3:]), default=1)
    whole = left + size * len(source) + right, above + size * len(target) + 6
    if small:
        whole = 1 + size * len(source), 1 + size * len(target)
        parts.insert(0, box(0.5, 0.5, whole[0] - 1, whole[1] - 1, class_="ground"))
    return Drawing(*whole, "attention: rows are written, columns are read", parts)


def _cells(
    token: str, source: Sequence[str], row: Sequence[float], left: float, y: float, size: int
) -> Iterator[Markup]:
    """One row of a map: a square and a title for each weight."""
    for s, weight in enumerate(row):
        if weight >= FAINT:
            told = element("title", f"{token} ← {source[s]}: {weight:.3f}")
            cell = box(left + size * s, y, size - 2, size - 2, class_="cell", fill_opacity=f"{min(1.0, weight):.3f}")
            yield element("g", told, cell)


def _row(token: str, source: Sequence[str], row: Sequence[float], left: float, y: float, size: int) -> Iterator[Markup]:
    """One row of a large map: a path for each shade, and one title for all of them."""
    shades: dict[int, list[int]] = defaultdict(list)
    for s, weight in enumerate(row):
        if weight >= FAINT:
            shades[max(1, round(LEVELS * min(1.0, weight)))].append(s)
    best = sorted(range(len(row)), key=lambda s: -row[s])[:TOLD]
    told = element("title", f"{token} ← " + ", ".join(f"{source[s]}: {row[s]:.3f}" for s in best))
    side = size - 2
    squares = [
        path(
            "".join(f"M{left + size * s:.1f} {y:.1f}h{side}v{side}h-{side}z" for s in places),
            class_="cell",
            fill_opacity=f"{shade / LEVELS:.3g}",
        )
        for shade, places in shades.items()
    ]
    ground = box(left, y, size * len(row), side, fill_opacity="0")
    yield element("g", told, ground, *squares)


def links(source: Sequence[str], target: Sequence[str], weights_TS: Tensor) -> Drawing:
    """Two lines of words with lines between them; a darker line has a larger weight. Weights below 0.05 have none.
    Words that are written from right to left stand in this order.
    """
    width = GAP + max(_end(source), _end(target))
    above, below = _places(source, width), _places(target, width)
    parts = []
    for t, row in enumerate(weights_TS.tolist()):
        for s, weight in enumerate(row):
            if weight >= LINE:
                told = element("title", f"{target[t]} ← {source[s]}: {weight:.3f}")
                drawn = line(above[s], 24, below[t], HIGH - 24, class_="link", stroke_opacity=f"{min(1.0, weight):.3f}")
                parts.append(element("g", told, drawn))
    for y, words, places in ((12, source, above), (HIGH - 12, target, below)):
        parts += [text(x, y, word, text_anchor="middle") for word, x in zip(words, places, strict=True)]
    return Drawing(width, HIGH, "attention: lines from written words below to read words above", parts)


def _end(words: Sequence[str]) -> float:
    """Where the last word ends in pixels, 0 without words."""
    return sum(_wide(word) + GAP for word in words)


def _wide(word: str) -> float:
    return LETTER * max(1, columns(word))


def _places(words: Sequence[str], width: float) -> list[float]:
    """The middle of each word in pixels, if the words stand side by side in a drawing of this ``width``."""
    places, x = [], float(GAP)
    for word in words:
        places.append(x + _wide(word) / 2)
        x += _wide(word) + GAP
    return [width - place for place in places] if from_right(words) else places
