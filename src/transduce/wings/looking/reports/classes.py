"""The page of a source's classes: their probabilities, and each word coloured by its effect on the label."""

from __future__ import annotations

import json
from pathlib import Path

from transduce.core.errors import UserError
from transduce.wings.lab.reports import figures
from transduce.wings.looking.inspection.classes import ClassReading
from transduce.wings.looking.reports import cells
from transduce.wings.pages.legend import scale
from transduce.wings.pages.markup import Markup, element, joined, table
from transduce.wings.pages.numbers import percent
from transduce.wings.pages.page import document, foreign, section, write

STYLE = cells.STYLE.replace("ui-monospace, monospace", "system-ui, sans-serif") + figures.STYLE


def classes_page(found: ClassReading) -> str:
    """The text of an HTML page. Blue words speak for the label and orange words against it; the mouse shows numbers."""
    label = label_name(found.label)
    rows = [
        (label_name(name), element("span", element("span", style=f"width: {p:.4%}"), class_="bar"), f"{100 * p:.1f}")
        for name, p in found.classes
    ]
    parts = [section("Classes", element("div", table(("class", "0 to 100 %", "%"), rows), class_="bars"))]
    if found.words:
        told = (
            f"Each word was left out once. Blue: log p({label}) falls without the word; orange: it rises. The "
            "darkest word changes it most."
        )
        effects = [(each.word, f"{each.effect:+.3f}") for each in found.words]
        listed = element("details", element("summary", "the numbers"), table(("word", "effect"), effects))
        key = scale("against the label", "for the label", "blue", "orange")
        text = element("div", *_coloured(found), class_="read", dir="auto", lang="")
        parts.append(section(f"Words for {label}", element("p", told, class_="faint"), key, text, listed))
    return document(f"Label: {label}", foreign(found.source), *parts, style=STYLE, summary=_summary(found))


def label_name(token: str) -> str:
    """A label as people wrote it: a label's token is "<1>" for the label 1."""
    return token[1:-1] if token.startswith("<") and token.endswith(">") and len(token) > 2 else token


def _summary(found: ClassReading) -> str:
    """How sure the model is of the label, and which word speaks most for it."""
    of = dict(found.classes)
    told = f"The model is {percent(of.get(found.label, 0.0))} sure of {label_name(found.label)}"
    others = [name for name, _ in found.classes if name != found.label]
    told += f"; {label_name(others[0])} has {percent(of[others[0]])}." if others else "."
    if found.words and (most := max(found.words, key=lambda each: each.effect)).effect > 0:
        told += f" The word that speaks most for it: {most.word}."
    return told


def _coloured(found: ClassReading) -> list[Markup]:
    most = max(abs(each.effect) for each in found.words) or 1.0
    spans, at = [], 0
    for each in found.words:
        mark = cells.mark(each.effect / most)
        spans += [
            joined([found.source[at : each.start]]),
            element("span", each.word, class_=mark, title=f"{each.effect:+.3f}"),
        ]
        at = each.end
    return [*spans, joined([found.source[at:]])]


def write_classes(found: ClassReading, out: Path) -> None:
    """Writes a page (.html) or JSON (.json). Raises UserError for another suffix."""
    if out.suffix == ".json":
        write(out, json.dumps(found.record(), ensure_ascii=False, indent=1) + "\n")
    elif out.suffix == ".html":
        write(out, classes_page(found))
    else:
        raise UserError(f"--out {out}: classes are shown on a page .html, or written as .json; end the name so")
