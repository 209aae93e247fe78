"""Builds the site, and checks it: `python docs/site/make_site.py FOLDER`, or `bash scripts/site`.

No warning is allowed. Links lead to a file and to a place in it, and no page loads anything from a network, so the site
is readable without one.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[2]
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}
NAMED_ONLY = {"canonical", "index", "search", "next", "prev", "author"}  # a `rel` of a link that loads nothing
ADDRESSES = re.compile(r"(?:url\(|@import\s*)[\"']?(?:https?:)?//[^\"')]*")


def build(folder: Path, pages: Path) -> list[str]:
    """Builds the site in a folder, and keeps what Sphinx has read in another. Returns the faults, a line for each."""
    from sphinx.cmd.build import build_main

    options = ["--quiet", "--fail-on-warning", "-c", str(ROOT / "docs" / "site"), "-d", str(pages)]
    if build_main([*options, str(ROOT), str(folder)]):
        return ["Sphinx warned: see above"]
    for path in folder.rglob("*.html"):
        path.write_text(accessible(path.read_text(encoding="utf-8")), encoding="utf-8")
    return faults(folder)


def accessible(html: str) -> str:
    """A page of Sphinx with what axe misses in it: a keyboard reaches wide tables and blocks of code, headings of
    menus have a level, and the parameters of a function are no list of definitions.
    """
    html = re.sub(r"<pre(?! tabindex)", '<pre tabindex="0"', html)
    html = html.replace('<div class="table-wrapper', '<div tabindex="0" class="table-wrapper')
    html = html.replace('class="caption" role="heading">', 'class="caption" role="heading" aria-level="2">')
    html = html.replace('<aside class="sidebar-drawer">', '<aside class="sidebar-drawer" aria-label="All pages">')
    html = html.replace('<dl>\n<dd><em class="sig', '<dl role="list">\n<dd><em class="sig')
    return html.replace('<dd><em class="sig', '<dd role="listitem"><em class="sig')


class Page(HTMLParser):
    """What a page has: the places in it, the links that it shows, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.places: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        self.places |= {given[name] for name in ("id", "name") if given.get(name)}
        address = given.get(LOADED.get(tag, ""))
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif address and not NAMED_ONLY.intersection(given.get("rel", "").split()):
            self.loaded.append(address)


page = cache(Page)


def faults(folder: Path) -> list[str]:
    """The broken links of the pages in a folder, and what they load from elsewhere."""
    found = []
    for path in sorted(folder.rglob("*.html")):
        name = path.relative_to(folder)
        found += [f"{name} loads {each}" for each in page(path).loaded if urlsplit(each).netloc]
        for address in page(path).links + page(path).loaded:
            parts = urlsplit(address)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if parts.scheme or parts.netloc:
                continue
            if not target.is_file():
                found.append(f"{name}: {address} is no file")
            elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in page(target).places:
                found.append(f"{name}: {address} is no place of the page")
    for path in sorted(folder.rglob("*.css")):
        found += [f"{path.relative_to(folder)} loads {each}" for each in ADDRESSES.findall(path.read_text("utf-8"))]
    return found


if __name__ == "__main__":
    out = Path(sys.argv[1])
    wrong = build(out, ROOT / "build" / "site-pages")
    print("\n".join(wrong) or f"{out / 'index.html'}: no warning, no broken link, nothing from a network")
    sys.exit(bool(wrong))
