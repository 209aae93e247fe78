"""The chapters as slides: `python -m book.slides FOLDER`, or `bash scripts/book --slides`. Each chapter is a file that
needs no network: the arrow keys turn its slides.

A slide is a paragraph of the idea, the formula, code, a picture, a thing to touch, or an exercise. They are taken from
the page that the site has of the chapter, so numbers and pictures are those of the page, without what is folded away.
"""

from __future__ import annotations

import re
import sys
from html import escape
from pathlib import Path

from book import chapter

SITE = chapter.FOLDER.parent / "build" / "site" / "book"
PIECE = re.compile(
    r'<p>.*?</p>|<ul class="simple">.*?</ul>|<figure class="picture".*?</figure>|<div class="formula".*?</div>|'
    r'<div class="touch".*?</script></div>|<div class="highlight-i?python3? .*?</pre></div>\s*</div>',
    re.DOTALL,
)
STYLE = """
:root { color-scheme: light dark; font: 1.35rem/1.45 system-ui, sans-serif; }
body { margin: 0; }
.slide { display: none; box-sizing: border-box; min-height: 100vh; padding: 4vh 7vw; }
.slide:target, body:not(:has(.slide:target)) .slide:first-of-type { display: block; }
.slide h1 { font-size: 1.6em; margin-top: 0; color: light-dark(#1a5fb4, #8ab8f5); }
pre { overflow: auto; max-height: 68vh; font-size: 0.85rem; padding: 0.6rem; background: light-dark(#f1f4f8, #22262c); }
figure svg { width: 100%; height: auto; max-height: 72vh; }
svg text { fill: currentColor; }
.foot { position: fixed; bottom: 0.5rem; right: 1rem; font-size: 0.9rem; }
@media print { .slide { display: block; break-after: page; } .foot { display: none; } }
"""
KEYS = """
addEventListener("keydown", event => {
  const by = { ArrowRight: 1, PageDown: 1, " ": 1, ArrowLeft: -1, PageUp: -1 }[event.key];
  if (!by || event.target.closest("input, button")) return;
  const all = [...document.querySelectorAll(".slide")];
  const now = Math.max(0, all.findIndex(each => "#" + each.id === location.hash));
  location.hash = all[Math.max(0, Math.min(all.length - 1, now + by))].id;
});
"""


def slides(page: str) -> list[tuple[str, str]]:
    """The heading and the contents of each slide, from the HTML of a chapter's page."""
    title = re.sub(r"<[^>]+>|#|¶", "", re.search(r"<h1>(.*?)</h1>", page, re.DOTALL)[1])  # type: ignore[index]
    found = [(title, "")]
    body = page[page.index("<h1>") : page.index("</article>")]
    for part in re.split(r"(?=<h2>)", re.sub(r"<details.*?</details>", "", body, flags=re.DOTALL)):
        heading = re.match(r"<h2>(.*?)</h2>", part, re.DOTALL)
        name = re.sub(r"<[^>]+>|#|¶", "", heading[1]) if heading else "The idea"
        if name == "Read on":
            continue
        for piece in PIECE.findall(part):
            if found[-1][0] == name and found[-1][1].endswith((":</p>", "</code></p>")):
                found[-1] = (name, found[-1][1] + piece)  # what a paragraph announces stands below it
            else:
                found.append((name, piece))
    return found


def deck(page: str) -> str:
    """The slides of a chapter as one HTML file."""
    found, static = slides(page), chapter.FOLDER / "static"
    title = found[0][0]
    style = STYLE + (static / "touch.css").read_text("utf-8")
    parts = [
        f'<section class="slide" id="s{number}" aria-label="{escape(heading, quote=True)}"><h1>{escape(heading)}</h1>'
        f"{contents}</section>"
        for number, (heading, contents) in enumerate(found, 1)
    ]
    script = KEYS + (static / "touch.js").read_text("utf-8")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{style}</style></head><body><main>'
        f'{"".join(parts)}</main><p class="foot">{escape(title)} · arrow keys</p>'
        f"<script>{script}</script></body></html>"
    )


def write(folder: Path, site: Path = SITE) -> list[Path]:
    """Writes the slides of all chapters into a folder. Raises FileNotFoundError if the site was not built before."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in chapter.chapters():
        page = site / f"{name}.html"
        if not page.exists():
            raise FileNotFoundError(f"{page}: build the site first, with `bash scripts/book --short`")
        path = folder / f"{name}.html"
        path.write_text(deck(page.read_text(encoding="utf-8")), encoding="utf-8")
        written.append(path)
    return written


if __name__ == "__main__":
    print(*write(Path(sys.argv[1])), sep="\n")
