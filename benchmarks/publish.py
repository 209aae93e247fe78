"""Writes docs/results.md, the tables of docs/families.md and docs/simple.md, a picture, and recipes' scores.

    bash scripts/results        (or: python benchmarks/publish.py)

The result depends only on the files under benchmarks/results and on the recipes. So a second run changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from publishing import families, simple
from publishing.headers import header
from publishing.page import Results

from transduce.core import recipes

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "results.md"
FAMILIES = ROOT / "docs" / "families.md"
SIMPLE = ROOT / "docs" / "simple.md"
PICTURE = ROOT / "docs" / "pictures" / "families-on-three-tasks.svg"


def pages() -> Iterator[tuple[Path, str]]:
    """Yields every file that is made from records, with its new text."""
    results = Results.read(RESULTS)
    yield PAGE, results.page()
    compared = families.Comparison.read(RESULTS / "families.toml")
    page = FAMILIES.read_text(encoding="utf-8")
    yield FAMILIES, families.filled(page, families.table(compared, results.records))
    yield PICTURE, families.picture(compared, results.records)
    yield SIMPLE, families.filled(SIMPLE.read_text(encoding="utf-8"), simple.summary(results.records))
    for name in recipes.names():
        path = Path(str(recipes.place(name)))
        found = [row for row in results.rows if row.recipe == name]
        yield path, header(name, path.read_text(encoding="utf-8"), results.of_recipe(name), bool(found))


def main() -> None:
    for path, text in pages():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
