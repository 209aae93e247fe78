"""The page: one HTML file with its style inside. It loads nothing, runs no scripts and follows the dark mode."""

from __future__ import annotations

from pathlib import Path

from transduce.core.files import write_text
from transduce.wings.pages import drawing
from transduce.wings.pages.markup import Markup, element, joined
from transduce.wings.pages.palette import variables

LONG = 120  # characters of a title; longer ones are set in a smaller size

STYLE = """
body { max-width: 72rem; margin: 3rem auto 5rem; padding: 0 1.5rem; background: var(--paper); color: var(--ink);
  font: 15px/1.55 system-ui, sans-serif; overflow-wrap: anywhere; }
@media (max-width: 40rem) { body { margin-top: 1.5rem; padding: 0 1rem; } tr > :first-child { max-width: 40vw; } }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0; } h1.long { font-size: 1.1rem; max-width: 46rem; }
h2 { font-size: 1.1rem; margin: 2.6rem 0 .6rem; }
p { margin: .3rem 0 .8rem; max-width: 46rem; } .faint, figcaption, summary { color: var(--faint); }
small, figcaption { font-size: .85rem; } summary { cursor: pointer; margin-top: .8rem; }
code { font: .85em ui-monospace, monospace; }
pre { font: .95em/1.6 ui-monospace, monospace; background: var(--card); border-radius: 6px; padding: .8rem 1rem;
  overflow-x: auto; }
figure { margin: 0; } figcaption { margin-bottom: .4rem; } img { max-width: 100%; height: auto; }
audio { display: block; width: 20rem; max-width: 100%; }
.wide { overflow-x: auto; margin-bottom: .8rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; overflow-wrap: break-word; }
caption { text-align: left; color: var(--faint); font-size: .85rem; }
th, td { padding: .3rem 1.1rem .3rem 0; text-align: right; border-bottom: 1px solid var(--rule); white-space: nowrap; }
thead th { color: var(--faint); font-weight: 500; vertical-align: bottom; }
tbody th { font-weight: 600; } tr > th:first-child { white-space: normal; }
tr > :first-child { text-align: left; position: sticky; left: 0; background: var(--paper); }
tr > :last-child { padding-right: 0; }
"""


def document(title: str, about: str, *sections: Markup, style: str = "", heading: str = "") -> str:
    """The text of the whole HTML file.

    ``title`` and ``about``, the line under the title, are plain text unless they are Markup. ``style`` is the style
    sheet of the sections. ``heading`` replaces the title in the page if it needs markup; the browser's tab shows
    ``title``.
    """
    sheet = "\n".join([variables(), STYLE, drawing.STYLE, style])
    head = element("head", CHARACTERS, VIEWPORT, element("title", title), element("style", Markup(sheet)))
    size = {"class_": "long"} if len(title) > LONG else {}
    top = element("h1", heading or title, **size), element("p", about, class_="faint")
    body = element("body", element("main", *top, *sections))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def section(heading: str, *parts: str) -> Markup:
    """A section of a page: its heading, and the parts under it."""
    return element("section", element("h2", heading), *parts)


def foreign(text: str) -> Markup:
    """A text in any language inside a line, with its own writing direction. Its language is declared as unknown."""
    return element("bdi", text, lang="")


def notes(*lines: str) -> Markup:
    """A paragraph of small print, one line for each argument."""
    return element("p", element("small", joined(lines, element("br"))), class_="faint")


def write(path: Path, text: str) -> None:
    """Writes the text into the file ``path``, and makes missing folders. An older file is replaced as a whole. Half of
    a surrogate pair becomes "?".
    """
    # A text from outside may have half of a surrogate pair, which UTF-8 cannot hold.
    write_text(path, text.encode("utf-8", "replace").decode("utf-8"))


CHARACTERS = element("meta", charset="utf-8")
VIEWPORT = element("meta", name="viewport", content="width=device-width, initial-scale=1")
