"""``transduce lattice``: all alignments of a text with a number of frames, which CTC sums over."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated

import typer

from transduce.core.errors import UserError

BLANK = "-"
LISTED = 20
LONGEST = 1000  # frames: an alignment has one symbol for each


def lattice(
    output: Annotated[str, typer.Argument(help="A text; each letter is a symbol.", metavar="TEXT")],
    frames: Annotated[int, typer.Option(min=1, max=LONGEST, help="Frames of the source.")],
    most: Annotated[int | None, typer.Option(min=0, help="The most alignments to list; by default 20.")] = None,
    out: Annotated[Path | None, typer.Option(help="Draw all of them (.svg) instead.")] = None,
) -> None:
    """Show the alignments that CTC sums over.

    An alignment has one symbol or the blank, written "-", for each frame.

    \b
    Examples:
      transduce lattice Hi --frames 4 --out lattice.svg
    """
    from transduce.wings.ctc.paths import alignments, count, least_frames

    if BLANK in output:
        raise UserError(f"{output!r}: {BLANK} stands for the blank; leave it out of the text")
    total = count(output, frames)
    if not total:
        raise UserError(
            f"{output!r} has no alignment with --frames {frames}: it needs {least_frames(output)}, one for each symbol "
            "and a blank between two that are equal"
        )
    if out is not None and most is not None:
        raise UserError("--out draws the lattice, and --most is for the list: leave out one of them")
    if out is not None:
        _write_drawing(output, frames, out)
        return
    print(f"{total:,} alignment{'' if total == 1 else 's'} of {output!r} with {frames} frames")
    listed = LISTED if most is None else most
    for path in itertools.islice(alignments(output, frames, BLANK), listed):
        print("".join(path))
    if total > listed:
        print(f"... and {total - listed:,} more")


def _write_drawing(output: str, frames: int, out: Path) -> None:
    from transduce.wings.ctc.report import of_text, svg
    from transduce.wings.pages.page import write

    if out.suffix != ".svg":
        raise UserError(f"--out {out}: the lattice is drawn as .svg; end the name with it")
    write(out, svg(of_text(output, frames), output, best=False))
