"""Writes docs/results.md, and the scores in recipes' headers, from the files under benchmarks/results.

    bash scripts/results        (or: python benchmarks/publish.py)

The result depends on these files and on the recipes alone: a second run changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from publishing.headers import header
from publishing.page import Results

from transduce import recipes

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "results.md"
RECIPES = ROOT / "src" / "transduce" / "recipes"


def pages() -> Iterator[tuple[Path, str]]:
    """Every file that is made from records, with the text that it should have."""
    results = Results.read(RESULTS)
    yield PAGE, results.page()
    for name in recipes.names():
        path = RECIPES / f"{name}.toml"
        found = [row for row in results.rows if row.recipe == name]
        yield path, header(name, path.read_text(encoding="utf-8"), results.of_recipe(name), bool(found))


def main() -> None:
    for path, text in pages():
        if path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
