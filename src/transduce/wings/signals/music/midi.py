"""Chords as files of MIDI, written by the package mido, which is imported only then."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from transduce.core.errors import MissingPackageError, UserError
from transduce.core.files import write_file
from transduce.wings.signals.music.chords import Chord, notes

TICKS = 480  # of a step
LOUDNESS = 80  # of 127
DRUMS = 9  # the channel that is not pitched
CHANNELS = 16
FASTEST = 60_000_000  # steps a minute: a step is a whole number of microseconds


def write_midi(path: Path, chords: Sequence[Chord], tempo: float = 80.0) -> None:
    """Writes chords as a MIDI file with a track for each voice (``chords.notes``). A step is a quarter note, and
    ``tempo`` is their number per minute.

    Raises MissingPackageError without mido. Raises UserError for an empty piece, or for a ``tempo`` that is not from 4
    to 60,000,000.
    """
    try:
        import mido
    except ImportError as error:
        raise MissingPackageError("MIDI files need mido: pip install 'transduce[music]'") from error
    if not (math.isfinite(tempo) and 4 <= tempo <= FASTEST):
        raise UserError(f"tempo = {tempo}: 4 to {FASTEST:,} quarter notes per minute were expected")
    found = notes(chords)
    if not found:
        raise UserError("a piece without notes makes no MIDI file: give chords such as '60 64 67 .'")
    file = mido.MidiFile(ticks_per_beat=TICKS)
    for voice in sorted({note.voice for note in found}):
        track = mido.MidiTrack()
        if voice == found[0].voice:
            track.append(mido.MetaMessage("set_tempo", tempo=mido.bpm2tempo(tempo)))
        channel = [place for place in range(CHANNELS) if place != DRUMS][voice % (CHANNELS - 1)]
        own = [note for note in found if note.voice == voice]
        events = [(note.start, "note_on", note.pitch) for note in own]
        events += [(note.start + note.steps, "note_off", note.pitch) for note in own]
        before = 0
        for step, kind, pitch in sorted(events):  # at one step, "note_off" comes before "note_on"
            ticks = TICKS * (step - before)
            track.append(mido.Message(kind, channel=channel, note=pitch, velocity=LOUDNESS, time=ticks))
            before = step
        file.tracks.append(track)
    write_file(path, lambda scratch: file.save(str(scratch)))
