"""Music as text: chords, nats a step by hand, and the chorales of the shared data."""

from __future__ import annotations

import itertools
import math
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from test_cli import Call, told
from test_selection import Tables

from transduce.core.errors import UserError
from transduce.core.types import Example, Padded, Prediction
from transduce.data.tokenizers.text import Symbols
from transduce.metrics.base import metric
from transduce.search.base import with_run
from transduce.search.beam import Beam
from transduce.wings.recipes.origins.chorales import Chorales
from transduce.wings.signals.music.chords import Note, chords, notes, text
from transduce.wings.signals.music.melody import Melody
from transduce.wings.signals.music.midi import write_midi

DATA = Path(os.environ.get("TRANSDUCE_DATA", "nowhere")) / "music_jsb"


def test_chords_are_text_and_back() -> None:
    given = [(60, 67, 72), (), (62, None)]
    assert text(given) == "60 67 72 . . 62 - ."
    assert chords(text(given)) == given
    assert chords("60 . 61") == [(60,), (61,)]
    for wrong in ("128 .", "-1 .", "x"):
        with pytest.raises(UserError, match="is no pitch"):
            chords(wrong)


def test_nats_are_per_chord() -> None:
    nats = metric("nats_per_step")
    example = Example("", ("60 67 . 62 .",))
    prediction = Prediction("", forced_log_prob=-7.0, forced_length=6, forced_right=0)
    assert nats.score(nats.statistics(prediction, example)) == pytest.approx(3.5)
    assert not math.isnan(nats.score([2.0, 1.0]))
    assert math.isnan(nats.score([1.0, 0.0]))


@pytest.mark.skipif(not DATA.exists(), reason="needs music_jsb of TRANSDUCE_DATA")
def test_chorales_are_pieces_of_quarter_notes(tmp_path: Path) -> None:
    found = Chorales(form="sets", transpose=1, folder=str(DATA)).prepare(tmp_path)
    assert found.test is not None
    assert found.train is not None
    lines = Path(str(found.test.path)).read_text().splitlines()
    assert len(lines) == 77
    assert len(Path(str(found.train.path)).read_text().splitlines()) == 3 * 229
    assert all(list(chord) == sorted(set(chord)) for chord in chords(lines[0]))
    pair = Chorales(form="harmony", transpose=0, folder=str(DATA)).prepare(tmp_path / "harmony")
    assert pair.test is not None
    soprano, voices = Path(str(pair.test.path)).read_text().splitlines()[0].split("\t")
    assert soprano.split() == ["-" if chord[0] is None else str(chord[0]) for chord in chords(voices)]


def test_pitches_that_go_on_are_one_note_of_their_voice() -> None:
    assert notes(chords("60 64 . 60 65 . 60 - .")) == [Note(0, 60, 0, 3), Note(1, 64, 0, 1), Note(1, 65, 1, 1)]
    assert notes(chords("60 64 . 64 . . 64 .")) == [Note(0, 60, 0, 1), Note(0, 64, 0, 2), Note(0, 64, 3, 1)]
    assert notes([]) == []


def test_a_midi_file_has_the_notes(tmp_path: Path) -> None:
    mido = pytest.importorskip("mido")
    piece = chords("60 64 . 60 65 . 62 - . 62 64 .")
    write_midi(tmp_path / "piece.mid", piece, tempo=120)
    read = mido.MidiFile(tmp_path / "piece.mid")
    found, tempi = [], []
    for voice, track in enumerate(read.tracks):
        ticks, begun = 0, {}
        for message in track:
            ticks += message.time
            if message.type == "set_tempo":
                tempi.append(message.tempo)
            elif message.type == "note_on":
                begun[message.note] = ticks
            elif message.type == "note_off":
                start = begun.pop(message.note)
                found.append(Note(voice, message.note, start // 480, (ticks - start) // 480))
        assert not begun
    assert sorted(found) == sorted(notes(piece))
    assert (read.ticks_per_beat, tempi) == (480, [500_000])
    for tempo, given, message in ((0, piece, "tempo = 0"), (80, [(None,)], "without notes")):
        with pytest.raises(UserError, match=message):
            write_midi(tmp_path / "wrong.mid", given, tempo)


def test_the_command_writes_a_file_and_a_picture(call: Call, tmp_path: Path) -> None:
    midi, picture = tmp_path / "a.mid", tmp_path / "a.svg"
    status, _, err = call("music", "--midi", midi, "--picture", picture, "--line", "2", stdin=b"x\n60 64 . 62 65 .\n")
    assert (status, err) == (0, "")
    assert midi.read_bytes()[:4] == b"MThd"
    assert "C4" in picture.read_text()
    assert "nothing to write" in told(call("music", stdin=b"60 .\n"))
    assert "--line 2: the input has fewer lines" in told(call("music", "--midi", midi, "--line", "2", stdin=b"60 .\n"))
    assert "is no pitch" in told(call("music", "--midi", midi, stdin=b"x .\n"))


def test_a_kept_melody_is_the_first_pitch_of_each_chord() -> None:
    kept = metric("kept_melody")
    rows = [
        kept.statistics(Prediction(output), Example("67 - 71", ("",)))
        for output in ("67 60 . - 62 . 71 .", "67 . 60 - .", "67 . - . 71 . 60 .", "")
    ]
    assert rows == [(3, 3), (1, 3), (3, 4), (0, 3)]
    assert kept.score([7.0, 13.0]) == pytest.approx(700 / 13)
    assert math.isnan(kept.score([0.0, 0.0]))


def harmonised(source: list[list[int]], lengths: list[int], voices: int = 2, **options: Any) -> list[set[str]]:
    """The texts that a beam finds that has room for all outputs of at most 9 tokens, for sources of ids."""
    target, notes_of = Symbols().learn(["60 62 - ."] * 2), Symbols().learn(["60 62 - 99"] * 2)
    beam = with_run(Beam(60, 60, 9, filters=(Melody(voices),)), _never, notes_of, target)
    model = Tables(len(source), vocabulary=len(target))
    found = beam(model, Padded(torch.tensor(source), torch.tensor(lengths)), **options)
    return [{target.decode(each.tokens) for each in row} for row in found]


def _never(path: Path) -> None:
    raise AssertionError(path)


def test_a_beam_with_room_for_all_writes_every_harmony_of_a_melody_and_nothing_else() -> None:
    notes_of = Symbols().learn(["60 62 - 99"] * 2)
    melodies = ["62 -", "60", "99", ""]
    rows = [notes_of.encode([melody])[0] for melody in melodies]
    widest = max(map(len, rows))
    # The filter must ignore notes in the padding.
    padded = [[*row, *[rows[0][0]] * (widest - len(row))] for row in rows]
    found = harmonised(padded, [len(row) for row in rows])
    free = ["60", "62", "-"]
    for melody, texts in zip(melodies, found, strict=True):
        first = [free if note == "99" else [note] for note in melody.split()]
        steps = [[f"{one} {other} ." for one in ones for other in free] for ones in first]
        assert texts == {" ".join(chosen) for chosen in itertools.product(*steps)}
    assert harmonised(padded[:1], [3], voices=1) == [{"62 . - ."}]


def test_melodies_need_chords() -> None:
    words = Symbols().learn(["a b"] * 2)
    with pytest.raises(UserError, match="or no pitches"):
        with_run(Beam(filters=(Melody(),)), _never, words, words)
    with pytest.raises(UserError, match="voices = 0"):
        Melody(0)
