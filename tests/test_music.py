"""Music as text: chords, nats a step by hand, and the chorales of the shared data."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from transduce.chords import chords, text
from transduce.errors import UserError
from transduce.metrics.base import metric
from transduce.recipes.origins.chorales import Chorales
from transduce.types import Example, Prediction

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
    with pytest.raises(UserError, match="nats per step of no chords"):
        nats.score([1.0, 0.0])


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
