"""The page: one HTML file with its style inside. It loads nothing, needs no script and follows the dark mode."""

from __future__ import annotations

from pathlib import Path

from transduce.core.files import write_text
from transduce.wings.pages import drawing, legend
from transduce.wings.pages.markup import Markup, element, joined
from transduce.wings.pages.palette import variables

LONG = 120  # characters of a title; longer ones are set in a smaller size

STYLE = """
body { max-width: 96rem; margin: 2.5rem auto 5rem; padding: 0 2rem; background: var(--paper); color: var(--ink);
  font: 15px/1.55 system-ui, sans-serif; overflow-wrap: anywhere; }
main { display: flex; flex-wrap: wrap; gap: 0 4rem; align-items: flex-start; }
main > * { flex: 0 1 auto; min-width: 0; max-width: 100%; } main > :is(header, nav, div) { flex: 1 0 100%; }
section:has(> .cards, > .spread, > .tree) { flex: 1 0 100%; }
@media (max-width: 40rem) { body { margin-top: 1.5rem; padding: 0 1rem; } section { flex: 1 0 100%; }
  tr > :first-child { max-width: 40vw; } }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0; } h1.long { font-size: 1.1rem; max-width: 46rem; }
h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; }
p { margin: .3rem 0 .8rem; max-width: 40rem; } .faint, figcaption, summary { color: var(--faint); }
.summary { font-size: 1.15rem; line-height: 1.5; max-width: 60rem; margin: 1rem 0 0; padding: .1rem 0 .1rem .9rem;
  border-left: 4px solid var(--blue); }
small, figcaption { font-size: .85rem; } summary { cursor: pointer; margin-top: .8rem; }
code { font: .85em ui-monospace, monospace; }
pre { font: .95em/1.6 ui-monospace, monospace; background: var(--card); border-radius: 6px; padding: .8rem 1rem;
  overflow-x: auto; }
figure { margin: 0; } figcaption { margin-bottom: .4rem; } img { max-width: 100%; height: auto; }
audio { display: block; width: 20rem; max-width: 100%; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 36rem), 1fr)); gap: .8rem; }
.spread { display: flex; flex-wrap: wrap; gap: 1rem 2rem; align-items: flex-start; }
.spread figure { min-width: 0; max-width: 100%; } .spread svg { max-width: 100%; height: auto; }
.wide { overflow-x: auto; margin-bottom: .8rem; max-width: 100%; }
.wide { background: linear-gradient(to left, var(--paper) 30%, transparent) right / 3rem 100% no-repeat local,
  linear-gradient(to left, var(--shadow), transparent) right / 1rem 100% no-repeat scroll; }
.wide svg { background: none; max-width: max(100%, 55rem); height: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; overflow-wrap: break-word; }
caption { text-align: left; color: var(--faint); font-size: .85rem; }
th, td { padding: .3rem 1.1rem .3rem 0; text-align: right; border-bottom: 1px solid var(--rule); white-space: nowrap; }
thead th { color: var(--faint); font-weight: 500; vertical-align: bottom; }
tbody th { font-weight: 600; } tr > th:first-child { white-space: normal; }
tr > :first-child { text-align: left; position: sticky; left: 0; background: var(--paper); }
tr > :last-child { padding-right: 0; }
@media (max-width: 40rem) { th, td { padding-right: .7rem; } }
"""


def document(
    title: str,
    about: str,
    *sections: Markup,
    style: str = "",
    heading: str = "",
    summary: str = "",
    script: str = "",
    icon: str = "",
) -> str:
    """The text of the whole HTML file. Sections stand side by side where there is room.

    ``title`` and ``about``, the line under the title, are plain text unless they are Markup. ``summary`` says in a
    sentence or two what the page shows. ``style`` is the style sheet of the sections. ``heading`` replaces the title in
    the page if it needs markup; the browser's tab shows ``title``. ``script`` is JavaScript, which must not be
    necessary to read the page. ``icon`` is the address of its icon: without one, browsers ask the page's server.
    """
    sheet = "\n".join([variables(), STYLE, drawing.STYLE, legend.STYLE, style])
    linked = [element("link", rel="icon", href=icon)] if icon else []
    head = element("head", CHARACTERS, VIEWPORT, *linked, element("title", title), element("style", Markup(sheet)))
    size = {"class_": "long"} if len(title) > LONG else {}
    top = [element("h1", heading or title, **size), element("p", about, class_="faint")]
    if summary:
        top.append(element("p", summary, class_="summary"))
    after = [element("script", Markup(script))] if script else []
    body = element("body", element("main", element("header", *top), *sections), *after)
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
