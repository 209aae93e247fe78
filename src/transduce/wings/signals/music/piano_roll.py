"""The piano roll of chords: time from left to right, pitch from bottom to top."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from transduce.core.errors import UserError
from transduce.wings.pages.palette import FAINT, HUES, RULE
from transduce.wings.pages.plots import figure, save
from transduce.wings.signals.music.chords import Chord, notes

NAMED = {0: "C", 7: "G"}  # by the semitones above C
STEPS_PER_INCH = 6


def draw_piano_roll(path: Path, chords: Sequence[Chord], title: str = "") -> None:
    """Draws the notes of chords and writes the picture to ``path`` (.png, .svg or .pdf). Each voice (``chords.notes``)
    has a colour. The axis names each C and G, such as C4 for pitch 60. ``title`` stands above the picture.

    Raises UserError for a piece without notes or another suffix, and MissingPackageError without matplotlib.
    """
    found = notes(chords)
    if not found:
        raise UserError("a piece without notes has no picture: give chords such as '60 64 67 .'")
    low, high = min(note.pitch for note in found), max(note.pitch for note in found)
    sheet = figure(max(4.0, 1 + len(chords) / STEPS_PER_INCH), 1.2 + (high - low) / 12)
    axes = sheet.subplots()
    for note in found:
        hue = HUES[note.voice % len(HUES)]
        axes.broken_barh([(note.start, note.steps)], (note.pitch - 0.4, 0.8), facecolors=hue, edgecolors="white")
    ticks = [pitch for pitch in range(low, high + 1) if pitch % 12 in NAMED]
    axes.set_yticks(ticks, [f"{NAMED[pitch % 12]}{pitch // 12 - 1}" for pitch in ticks])
    axes.set_xlim(0, len(chords))
    axes.set_ylim(low - 1, high + 1)
    axes.set_xlabel("quarter notes", color=FAINT)
    axes.set_title(title, loc="left", fontsize=10)
    axes.grid(color=RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelsize=9)
    save(sheet, path)
