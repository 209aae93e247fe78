"""The page of a source's classes: their probabilities, and each word coloured by its effect on the label."""

from __future__ import annotations

import json
from pathlib import Path

from transduce.core.errors import UserError
from transduce.wings.looking.inspection.classes import ClassReading
from transduce.wings.looking.reports import cells
from transduce.wings.pages.markup import Markup, element, joined, table
from transduce.wings.pages.page import document, foreign, section, write

STYLE = cells.STYLE.replace("ui-monospace, monospace", "system-ui, sans-serif")


def classes_page(found: ClassReading) -> str:
    """The text of an HTML page. Blue words speak for the label and orange words against it; the mouse shows numbers."""
    rows = [(name, f"{100 * p:.1f}") for name, p in found.classes]
    parts = [section("Classes", table(("class", "%"), rows))]
    if found.words:
        told = (
            f"Each word was left out once. Blue: log p({found.label}) falls without the word; orange: it rises. The "
            "darkest word changes it most."
        )
        effects = [(each.word, f"{each.effect:+.3f}") for each in found.words]
        listed = element("details", element("summary", "the numbers"), table(("word", "effect"), effects))
        text = element("div", *_coloured(found), class_="read", dir="auto", lang="")
        parts.append(section(f"Words for {found.label}", element("p", told, class_="faint"), text, listed))
    return document("Classes", foreign(found.source), *parts, style=STYLE)


def _coloured(found: ClassReading) -> list[Markup]:
    most = max(abs(each.effect) for each in found.words) or 1.0
    spans, at = [], 0
    for each in found.words:
        mark = cells.mark(0.5 * each.effect / most)  # pale enough for text
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
