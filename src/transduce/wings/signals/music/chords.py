"""Music as text: one chord after the other. ``60 67 72 . 62 65 .`` are two chords.

A pitch is its MIDI number: 60 is the middle C, and a semitone is 1. Each chord ends with a full stop, so a silent step
is a full stop alone. A voice that is silent in a step of several voices is a hyphen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from transduce.core.errors import UserError

END = "."
SILENCE = "-"
HIGHEST = 127
Chord = tuple[int | None, ...]
"""The pitches of one step; None for a silent voice."""


def text(chords: Iterable[Chord]) -> str:
    """The chords as text."""
    return " ".join(
        symbol for chord in chords for symbol in (*(SILENCE if pitch is None else str(pitch) for pitch in chord), END)
    )


def chords(text: str) -> list[Chord]:
    """The chords of a text. Pitches after the last full stop are one more chord. Raises UserError for a symbol that is
    not a pitch from 0 to 127, a hyphen or a full stop.
    """
    found: list[Chord] = []
    chord: list[int | None] = []
    for symbol in text.split():
        if symbol == END:
            found.append(tuple(chord))
            chord = []
        else:
            chord.append(None if symbol == SILENCE else _pitch(symbol))
    return [*found, tuple(chord)] if chord else found


def _pitch(symbol: str) -> int:
    if not (symbol.isascii() and symbol.isdigit() and int(symbol) <= HIGHEST):
        raise UserError(
            f"{symbol!r} is no pitch: expected MIDI numbers from 0 to {HIGHEST}, {SILENCE!r} for silence, and {END!r} "
            'after each chord, such as "60 67 72 . 62 65 ."'
        )
    return int(symbol)


class Note(NamedTuple):
    """A pitch that sounds for ``steps`` steps from step ``start``, the first step being 0. ``voice`` is its place in
    the chords, from 0.
    """

    voice: int
    pitch: int
    start: int
    steps: int


def notes(chords: Sequence[Chord]) -> list[Note]:
    """The notes of chords, sorted by voice, start and pitch. A pitch that sounds in steps that follow each other is one
    long note, because chords do not tell whether it is struck again.

    If all chords have equally many pitches and silences, each place is a voice. Otherwise all notes belong to voice 0.
    """
    if len({len(chord) for chord in chords}) == 1:
        voices = [[{pitch} for pitch in voice] for voice in zip(*chords, strict=True)]
    else:
        voices = [[set(chord) for chord in chords]]
    found = []
    for voice, steps in enumerate(voices):
        sounding: dict[int, int] = {}  # pitch to its first step
        for step, pitches in enumerate([*steps, set[int | None]()]):
            for pitch in [pitch for pitch in sounding if pitch not in pitches]:
                start = sounding.pop(pitch)
                found.append(Note(voice, pitch, start, step - start))
            sounding |= {pitch: step for pitch in pitches if pitch is not None and pitch not in sounding}
    return sorted(found, key=lambda note: (note.voice, note.start, note.pitch))
