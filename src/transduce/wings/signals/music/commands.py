"""``transduce music``: chords as text become a MIDI file and a picture."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli import inputs
from transduce.cli.options import Files
from transduce.core.errors import UserError


def music(
    files: Files = None,
    midi: Annotated[Path | None, typer.Option(help="Write a MIDI file; needs the extra music.", metavar="FILE")] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the piano roll (.png, .svg, .pdf); needs the extra plots.", metavar="FILE")
    ] = None,
    line: Annotated[int, typer.Option(min=1, help="The line of the input that has the piece.")] = 1,
    tempo: Annotated[float, typer.Option(help="Quarter notes per minute, in the MIDI file.")] = 80.0,
) -> None:
    """Write chords as a MIDI file, and draw their piano roll.

    A line of the input is a piece: "60 64 67 . 62 65 .".

    \b
    Examples:
      transduce music piece.txt --midi piece.mid --picture piece.png
    """
    from transduce.wings.signals.music.chords import chords
    from transduce.wings.signals.music.midi import write_midi
    from transduce.wings.signals.music.piano_roll import draw_piano_roll

    if midi is None and picture is None:
        raise UserError("nothing to write: give --midi FILE.mid, --picture FILE.png, or both")
    text = next(islice(inputs.lines(files), line - 1, None), None)
    if text is None:
        raise UserError(f"--line {line}: the input has fewer lines")
    piece = chords(text)
    if midi is not None:
        write_midi(midi, piece, tempo)
    if picture is not None:
        draw_piano_roll(picture, piece)
