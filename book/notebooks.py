"""The chapters as notebooks: `python -m book.notebooks FOLDER`, or `bash scripts/book --open`."""

from __future__ import annotations

import sys
from pathlib import Path

from book import chapter


def write(folder: Path) -> list[Path]:
    """Writes each chapter as a notebook into the folder, unless it is there: a reader's answers stay."""
    import jupytext

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in chapter.chapters():
        path = folder / f"{name}.ipynb"
        if not path.exists():
            jupytext.write(jupytext.read(chapter.FOLDER / f"{name}.md"), path)
            written.append(path)
    return written


if __name__ == "__main__":
    print(*write(Path(sys.argv[1])), sep="\n")
