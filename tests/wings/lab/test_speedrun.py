"""benchmarks/speedrun.py: the tracks' settings fit the recipes, and the table has the means and their difference."""

from __future__ import annotations

from pathlib import Path

import pytest

from transduce.core import config, recipes
from transduce.core.types import Example, Prediction
from transduce.metrics.base import Metric, metric
from transduce.metrics.statistics import Statistics, statistics
from transduce.training.settings import read_settings

pytestmark = pytest.mark.usefixtures("benchmarks")


def test_both_ways_of_each_track_are_settings_of_its_recipe() -> None:
    from speedrun import TRACKS, settings_of

    for track in TRACKS.values():
        both = [
            read_settings(config.change(recipes.read(track.recipe), settings_of(track, way, Path("data"), [])))
            for way in ("before", "now")
        ]
        before, now = (each.training for each in both)
        assert before.batching == now.batching
        assert now.steps is not None
        assert before.steps is not None
        assert now.steps <= before.steps


@pytest.mark.parametrize(
    ("track", "model", "rate"),
    [("pronunciation", "model", 0.1), ("pronunciation-with-counts", "model.model", 0.1), ("translation", "model", 0.2)],
)
def test_what_a_recipe_has_lost_is_there_before(track: str, model: str, rate: float) -> None:
    from speedrun import TRACKS, settings_of

    made = {
        way: config.flatten(
            config.change(recipes.read(TRACKS[track].recipe), settings_of(TRACKS[track], way, Path("data"), []))
        )
        for way in ("before", "now")
    }
    for side in ("encoder", "decoder"):
        assert made["before"][f"{model}.{side}.dropout"] == rate
        assert made["now"][f"{model}.{side}.dropout"] == 0


def test_the_table_has_means_over_seeds_and_their_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    import speedrun

    monkeypatch.setattr(speedrun, "spent", lambda run: (len(str(run)) * 100, len(str(run)) / 2))
    right = metric("exact")
    found = {
        way: {seed: (Path(way), statistics_of(right, rights)) for seed, rights in enumerate(seeds, 1)}
        for way, seeds in (("before", ["rwww", "rrww"]), ("now", ["rrrw", "rrrr"]))
    }
    lines = [[each.strip() for each in line.strip("|").split("|")] for line in speedrun.rows("a track", found)]
    assert [line[1:6] for line in lines[:2]] == [
        ["before", "1", "600", "3.0", "25.00"],
        ["before", "2", "600", "3.0", "50.00"],
    ]
    assert lines[2][2] == "mean of 2"
    assert lines[2][5].startswith("37.50 (")
    assert lines[5][5].startswith("87.50 (")
    assert lines[6][1] == "now minus before"
    assert lines[6][5].startswith("+50.00 (")


def statistics_of(measured: Metric, rights: str) -> Statistics:
    """Statistics of one example for each letter: "r" is a right output."""
    outputs = [Prediction("x" if each == "r" else "y") for each in rights]
    return statistics([measured], outputs, [Example("", ("x",))] * len(rights))[0]
