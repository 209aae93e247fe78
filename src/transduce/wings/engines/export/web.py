"""Writes a run as a page that answers without a server: the file of the engine beside the engine in WebAssembly."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from transduce.core.errors import UserError
from transduce.core.files import replace_folder, write_file
from transduce.core.types import Example
from transduce.runs.layout import Checkpoint
from transduce.runs.run import Run
from transduce.wings.engines.engine_files import open_file
from transduce.wings.engines.export.engine import compared_content
from transduce.wings.engines.export.parity import Parity, Quality
from transduce.wings.engines.web.page import MODULE, TOKENIZERS, content, page

PAGE, MODEL = "index.html", "model.engine"


def export_web(
    run: Run,
    out: Path,
    checkpoint: Checkpoint,
    sample: Sequence[Example],
    precision: str,
    single: bool,
    shortlist: bool = False,
) -> tuple[Path, Parity | Quality]:
    """Writes the folder ``out``: the page, and the files for other pages (docs/engine.md). If ``single``, ``out`` is
    the page. Raises UserError if ``out`` exists or has another ending, and if ``compared_content`` does; then nothing
    is written.
    """
    if single and out.suffix != ".html":
        better = out / f"{run.path.name}.html" if out.is_dir() else out.with_suffix(".html")
        raise UserError(f"--single --out {out}: a file whose name ends in .html was expected, such as {better}")
    if not single and out.suffix == ".html":
        raise UserError(f"--out {out}: a folder was expected; for one page, add --single")
    if out.exists():
        raise UserError(f"--out {out}: it exists; name a new {'file' if single else 'folder'}")
    file, compared = compared_content(run, checkpoint, sample, precision, shortlist)
    subwords = any(open_file(file).engine.description(side)["unit"] == "library" for side in ("source", "target"))
    written = page(run.path.name, file, subwords).encode()

    def write_page(path: Path) -> None:
        path.write_bytes(written)

    def fill(folder: Path) -> None:
        write_page(folder / PAGE)
        (folder / MODEL).write_bytes(file)
        for name in (*MODULE, TOKENIZERS)[: None if subwords else -1]:
            (folder / name).write_bytes(content(name))

    if single:
        write_file(out, write_page)
    else:
        replace_folder(out, fill)
    return out, compared
