"""benchmarks/speedrun.py: the tracks' settings fit the recipes, and the table has the means and their difference."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from transduce.core import config, recipes
from transduce.metrics.statistics import Statistics
from transduce.training.settings import read_settings

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


@pytest.fixture(scope="module", autouse=True)
def benchmarks() -> Iterator[None]:
    """The modules of the benchmarks can be imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield


def test_both_ways_of_each_track_are_settings_of_its_recipe() -> None:
    from speedrun import TRACKS, settings

    for track in TRACKS.values():
        both = [
            read_settings(config.change(recipes.read(track.recipe), settings(track, way, Path("data"), [])))
            for way in ("before", "now")
        ]
        before, now = (each.training for each in both)
        assert before.batching == now.batching
        assert now.steps is not None
        assert before.steps is not None
        assert now.steps <= before.steps
