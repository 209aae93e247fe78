"""What all pages share: one file of HTML with its style inside, light or dark as the reader's system is."""

from __future__ import annotations

from pathlib import Path

from transduce.reports.markup import Markup, element, joined

STYLE = """
:root { color-scheme: light dark; --ink: #1f2933; --faint: #6b7785; --rule: #e1e5ea; --paper: #fff; --card: #f7f8fa;
  --one: #1d4ed8; --other: #e8590c; --missing: #fde2d4; --added: #dbe6ff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7eb; --faint: #98a4b3; --rule: #323c48; --paper: #161b22;
  --card: #1e252e; --one: #8fb0ff; --other: #ffa26b; --missing: #5a3320; --added: #26386b; } }
body { max-width: 62rem; margin: 3rem auto; padding: 0 1.2rem; background: var(--paper); color: var(--ink);
  font: 15px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2.6rem 0 .6rem; }
p { margin: .3rem 0 .8rem; max-width: 46rem; } .faint, figcaption, .card dt { color: var(--faint); }
small, figcaption { font-size: .85rem; } code { font-size: .85em; overflow-wrap: anywhere; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem 1.1rem .3rem 0; text-align: right; border-bottom: 1px solid var(--rule); white-space: nowrap; }
thead th { color: var(--faint); font-weight: 500; } tbody th { font-weight: 600; }
tr > :first-child { text-align: left; }
.figures { display: flex; flex-wrap: wrap; gap: 1.5rem 2.5rem; } figure { margin: 0; } svg { display: block; }
svg text { font-size: 11px; fill: var(--ink); } svg .faint { fill: var(--faint); }
.card { background: var(--card); border-radius: 6px; padding: .7rem 1rem; margin: .7rem 0; }
.card dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: 0; }
.card dd { margin: 0; overflow-wrap: anywhere; white-space: pre-wrap; }
mark { color: inherit; border-radius: 3px; padding: 0 .12em; background: var(--added); }
del { text-decoration-color: var(--faint); border-radius: 3px; padding: 0 .12em; background: var(--missing); }
.real { color: var(--one); font-weight: 600; }
"""


def page(title: str, about: str, *sections: Markup) -> str:
    """A whole document; ``about`` is the line under its title."""
    head = element("head", Markup('<meta charset="utf-8">'), VIEWPORT, element("title", title), STYLE_SHEET)
    body = element("body", element("h1", title), element("p", about, class_="faint"), *sections)
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def section(heading: str, *parts: str) -> Markup:
    return element("section", element("h2", heading), *parts)


def notes(*lines: str) -> Markup:
    """Small print, a line each."""
    return element("p", element("small", joined(lines, "<br>")), class_="faint")


def write(path: Path, text: str) -> None:
    """Beside its place first, so that a page is never half there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.write_text(text, encoding="utf-8", errors="replace")
    new.rename(path)


VIEWPORT = Markup('<meta name="viewport" content="width=device-width, initial-scale=1">')
STYLE_SHEET = element("style", Markup(STYLE))
