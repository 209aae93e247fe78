"""The page of a sentence: probabilities, attention as a heat map and as lines, and the tree of the search."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from transduce.inspect.sentence import SentenceReading, Step
from transduce.metrics.units import columns, shown
from transduce.pages.drawing import Drawing, box, line, text
from transduce.pages.markup import Markup, element, table
from transduce.pages.page import document, foreign, section
from transduce.reports import search_tree

CELL, LETTER, GAP = 24, 7.6, 16  # pixels: of a cell, the width of a letter, between words
HIGH = 150  # pixels between two lines of words
FAINT = 0.01  # weights below are not drawn
LINE = 0.05  # weights below have no line

STYLE = """
.steps { display: flex; flex-wrap: wrap; gap: .3rem; margin: .6rem 0; }
.steps div { border-radius: 6px; padding: .15rem .5rem; background: var(--card); border-bottom: 3px solid var(--rule); }
.steps small { display: block; color: var(--faint); }
svg .cell { fill: var(--blue); } svg .link { stroke: var(--blue); stroke-width: 2; }
"""


def sentence_page(readings: Sequence[SentenceReading]) -> str:
    """The text of an HTML page about one sentence, read by one model or by several. The page has no scripts: the mouse
    shows values, and parts open by a click.
    """
    parts = [part for reading in readings for part in _sections(reading, len(readings) > 1)]
    return document(readings[0].text, readings[0].source, *parts, style=STYLE + search_tree.STYLE)


def _sections(reading: SentenceReading, several: bool) -> list[Markup]:
    after = f": {reading.name}" if several else ""
    told = "Each token with its probability in percent; rest on it, or open the table, to see the most probable tokens."
    chips = element("div", *map(_chip, reading.steps), class_="steps")
    made = [section(f"Output{after}", element("p", told, class_="faint"), chips, _runners(reading.steps))]
    if reading.heads:
        made.append(section(f"Attention{after}", *_attention(reading)))
    if reading.tree is not None:
        kept = search_tree.drawing(reading.tree.root.without_pruned()).inline()
        made.append(section(f"Search{after}", element("div", kept, class_="wide")))
    return made


def _chip(step: Step) -> Markup:
    others = ", ".join(f"{shown(token)} {_percent(p)} %" for token, p in step.runners)
    percent = element("small", _percent(step.probability))
    return element("div", foreign(shown(step.token)), percent, title=others)


def _runners(steps: Sequence[Step]) -> Markup:
    rows = [
        [shown(step.token), _percent(step.probability), *(f"{shown(token)} {_percent(p)}" for token, p in step.runners)]
        for step in steps
    ]
    places = [str(rank) for rank in range(1, 1 + max(len(step.runners) for step in steps))]
    return element("details", element("summary", "the most probable tokens"), table(["token", "%", *places], rows))


def _percent(probability: float) -> str:
    return f"{100 * probability:.1f}"


def _attention(reading: SentenceReading) -> list[Markup]:
    source = [shown(token) for token in reading.source_tokens]
    target = [shown(step.token) for step in reading.steps]
    mean_TS = reading.mean()
    parts = [
        element("p", "Rows are written, columns are read; a row sums to 1. The mean of all heads:", class_="faint")
    ]
    parts += [_wide(heat_map(source, target, mean_TS)), _details("as lines", links(source, target, mean_TS))]
    if reading.words is not None:
        of_words = reading.words
        parts.append(_details("merged to words", heat_map(of_words.source, of_words.target, of_words.weights_VW)))
        parts.append(
            _details("merged to words, as lines", links(of_words.source, of_words.target, of_words.weights_VW))
        )
    entropies = reading.entropies()
    for name, heads_HTS in reading.heads.items():
        for head, weights_TS in enumerate(heads_HTS):
            label = f"{name}, head {head}: entropy {entropies[name][head]:.2f}"
            parts.append(_details(label, heat_map(source, target, weights_TS)))
    return parts


def _details(label: str, drawn: Drawing) -> Markup:
    return element("details", element("summary", label), _wide(drawn))


def _wide(drawn: Drawing) -> Markup:
    return element("div", drawn.inline(), class_="wide")


def heat_map(source: Sequence[str], target: Sequence[str], weights_TS: Tensor) -> Drawing:
    """A grid with source tokens across and target tokens down; a darker cell has a larger weight. Weights below 0.01
    are not drawn.
    """
    left = 12 + LETTER * max(map(columns, target), default=1)
    above = 12 + LETTER * 0.8 * max(map(columns, source), default=1)
    parts = [
        text(0, 0, token, transform=f"translate({left + CELL * (s + 0.5):.4g} {above - 6:.4g}) rotate(-55)")
        for s, token in enumerate(source)
    ]
    for t, (token, row) in enumerate(zip(target, weights_TS.tolist(), strict=True)):
        y = above + CELL * t
        parts.append(text(left - 6, y + CELL / 2, token, text_anchor="end"))
        for s, weight in enumerate(row):
            if weight >= FAINT:
                told = element("title", f"{token} ← {source[s]}: {weight:.3f}")
                cell = box(
                    left + CELL * s, y, CELL - 2, CELL - 2, class_="cell", fill_opacity=f"{min(1.0, weight):.3f}"
                )
                parts.append(element("g", told, cell))
    right = LETTER * 0.6 * max(map(columns, source[-3:]), default=1)
    size = left + CELL * len(source) + right, above + CELL * len(target) + 6
    return Drawing(*size, "attention: rows are written, columns are read", parts)


def links(source: Sequence[str], target: Sequence[str], weights_TS: Tensor) -> Drawing:
    """Two lines of words with lines between them; a darker line has a larger weight. Weights below 0.05 have none."""
    above, below = _places(source), _places(target)
    parts = []
    for t, row in enumerate(weights_TS.tolist()):
        for s, weight in enumerate(row):
            if weight >= LINE:
                told = element("title", f"{target[t]} ← {source[s]}: {weight:.3f}")
                drawn = line(above[s], 24, below[t], HIGH - 24, class_="link", stroke_opacity=f"{min(1.0, weight):.3f}")
                parts.append(element("g", told, drawn))
    for y, words, places in ((12, source, above), (HIGH - 12, target, below)):
        parts += [text(x, y, word, text_anchor="middle") for word, x in zip(words, places, strict=True)]
    width = GAP + max(_end(source, above), _end(target, below))
    return Drawing(width, HIGH, "attention: lines from written words below to read words above", parts)


def _end(words: Sequence[str], places: Sequence[float]) -> float:
    """Where the last word ends in pixels, 0 without words."""
    return places[-1] + LETTER * columns(words[-1]) / 2 if words else 0.0


def _places(words: Sequence[str]) -> list[float]:
    """The middle of each word in pixels, if the words stand side by side."""
    places, x = [], float(GAP)
    for word in words:
        width = LETTER * max(1, columns(word))
        places.append(x + width / 2)
        x += width + GAP
    return places
