"""The page of a sentence: probabilities, attention as a heat map and as lines, and the tree of the search."""

from __future__ import annotations

import math
from collections.abc import Sequence

from transduce.metrics.units import shown
from transduce.wings.looking.inspection.sentence import SentenceReading, Step
from transduce.wings.looking.reports import attention_drawings, gates, search_tree
from transduce.wings.looking.reports.attention_drawings import heat_map, links
from transduce.wings.looking.reports.head_names import layer_names
from transduce.wings.pages.direction import from_right
from transduce.wings.pages.drawing import Drawing
from transduce.wings.pages.legend import scale
from transduce.wings.pages.markup import Markup, element, scrolling, table
from transduce.wings.pages.numbers import chance, percent
from transduce.wings.pages.page import document, foreign, section

STYLE = """
.steps { display: flex; flex-wrap: wrap; gap: .3rem; margin: .6rem 0; }
.steps div { border-radius: 6px; padding: .15rem .5rem; background: var(--card); border-bottom: 3px solid var(--rule); }
.steps small { display: block; color: var(--faint); }
"""


def sentence_page(readings: Sequence[SentenceReading]) -> str:
    """The text of an HTML page about one sentence, read by one model or by several. The page has no scripts: the mouse
    shows values, and parts open by a click.
    """
    parts = [part for reading in readings for part in _sections(reading, len(readings) > 1)]
    style = STYLE + attention_drawings.STYLE + gates.STYLE + search_tree.STYLE
    text, source = readings[0].text, readings[0].source
    told = " ".join(map(_summary, readings))
    return document(text, foreign(source), *parts, style=style, heading=foreign(text), summary=told)


def _summary(reading: SentenceReading) -> str:
    """The probability of the output, and the token that the model was least sure of."""
    least = min(reading.steps, key=lambda step: step.probability)
    whole = math.prod(step.probability for step in reading.steps)
    others = [token for token, _ in least.runners if token != least.token]
    instead = f"; “{shown(others[0])}” would be the next choice" if others else ""
    return (
        f"{reading.name} gives this output a probability of {chance(whole)}. It was least sure of "
        f"“{shown(least.token)}” ({percent(least.probability)}){instead}."
    )


def _sections(reading: SentenceReading, several: bool) -> list[Markup]:
    after = f": {reading.name}" if several else ""
    told = "Each token with its probability in percent; rest on it, or open the table, to see the most probable tokens."
    order = "rtl" if from_right(step.token for step in reading.steps) else "ltr"
    chips = element("div", *map(_chip, reading.steps), class_="steps", dir=order)
    made = [section(f"Output{after}", element("p", told, class_="faint"), chips, _runners(reading.steps))]
    if reading.parts:
        told = f"The probability of each token by each model of the mixture. Share: {reading.meaning}."
        head, *rows = reading.part_rows()
        made.append(section(f"Models{after}", element("p", told, class_="faint"), table(head, rows)))
    if reading.units is not None:
        told = (
            "The most probable cut into units by the joint n-gram model. p: the probability of a unit given the units "
            "before it."
        )
        cut = table(["source", "output", "p"], reading.units.rows())
        made.append(section(f"Units{after}", element("p", told, class_="faint"), cut))
    if reading.heads:
        made.append(section(f"Attention{after}", *_attention(reading)))
    if reading.cells:
        told = "Gates on top, the mean over units: darker is more open. Below, units: blue positive, orange negative."
        drawn = [
            _details(f"{each.name}: {', '.join(each.gates) or 'no gates'}", gates.drawing(each))
            for each in reading.cells
        ]
        key = scale("gate shut", "open", "teal"), scale("unit negative", "positive", "blue", "orange")
        made.append(section(f"Cells over time{after}", element("p", told, class_="faint"), *key, *drawn))
    if reading.tree is not None:
        kept = search_tree.drawing(reading.tree.root.without_pruned()).inline()
        made.append(section(f"Search{after}", scrolling(kept, "the tree of the search")))
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
    several = sum(map(len, reading.heads.values())) > 1
    mean = " The mean of all heads:" if several else ""
    parts = [
        element("p", f"Rows are written, columns are read; a row sums to 1.{mean}", class_="faint"),
        scale("weight 0", "1"),
    ]
    parts += [_wide(heat_map(source, target, mean_TS)), _details("as lines", links(source, target, mean_TS))]
    if reading.words is not None:
        of_words = reading.words
        parts.append(_details("merged to words", heat_map(of_words.source, of_words.target, of_words.weights_VW)))
        parts.append(
            _details("merged to words, as lines", links(of_words.source, of_words.target, of_words.weights_VW))
        )
    return [*parts, *(_heads(reading, source, target) if several else [])]


def _heads(reading: SentenceReading, source: Sequence[str], target: Sequence[str]) -> list[Markup]:
    """A small map for each head, all of one size, with the names of people: "layer 1, head 1"."""
    entropies, layers = reading.entropies(), layer_names(reading.heads)
    drawn = [
        element(
            "figure",
            element(
                "figcaption",
                f"{layers[name]}, head {head + 1}",
                element("small", f" · entropy {entropies[name][head]:.2f}"),
                title=f"{name}, --head {head}",
            ),
            heat_map(source, target, weights_TS, small=True).inline(),
        )
        for name, heads_HTS in reading.heads.items()
        for head, weights_TS in enumerate(heads_HTS)
    ]
    told = "Each head alone, with the rows and columns of the map above. Entropy: 0 is one token, 1 all alike."
    return [element("p", told, class_="faint"), element("div", *drawn, class_="spread")]


def _details(label: str, drawn: Drawing) -> Markup:
    return element("details", element("summary", label), _wide(drawn))


def _wide(drawn: Drawing) -> Markup:
    return scrolling(drawn.inline(), drawn.about)
