"""What the wing ctc adds to test_search_language_model.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_search_language_model import SOURCES, frames, letters  # noqa: F401

import transduce
from transduce.wings.ctc.search.prefix_beam import PrefixBeam


def test_frames_with_a_language_model_of_the_settings(frames: Path, letters: Path) -> None:
    """``test_frames.py`` shows that the search from Python equals the sum over all alignments."""
    changes = {"search.language_model": str(letters), "search.weight": 0.8, "search.bonus": 1.0, "search.size": 5}
    beside, alone = transduce.load(frames, settings=changes), transduce.load(frames)
    search = PrefixBeam(5, 1, 0.8, 1.0, transduce.load(letters).model)
    ours = [each[0] for each in beside.predict(SOURCES)]
    theirs = [each[0] for each in alone.predict(SOURCES, search)]
    assert [(each.text, each.score) for each in ours] == [(each.text, each.score) for each in theirs]
    assert [each.score for each in ours] != [each[0].score for each in alone.predict(SOURCES)]
    both = transduce.load(frames, settings=changes | {"search.language_model": f"{letters}+{letters}"})
    assert [each[0].score for each in both.predict(SOURCES)] == pytest.approx([each.score for each in ours])
