"""Music as text: one chord after the other. ``60 67 72 . 62 65 .`` are two chords.

A pitch is its MIDI number: 60 is the middle C, and a semitone is 1. Each chord ends with a full stop, so a silent step
is a full stop alone. A voice that is silent in a step of several voices is a hyphen.
"""

from __future__ import annotations

from collections.abc import Iterable

from transduce.errors import UserError

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
