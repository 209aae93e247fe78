"""benchmarks/speedrun.py: the tracks' settings fit the recipes, and the table has the means and their difference."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from transduce.core import config, recipes
from transduce.core.types import Example, Prediction
from transduce.metrics.base import Metric, metric
from transduce.metrics.statistics import Statistics, statistics
from transduce.training.settings import read_settings

pytestmark = pytest.mark.usefixtures("benchmarks")


def test_all_ways_of_each_track_are_settings_of_its_recipe() -> None:
    from speedrun import TRACKS, settings_of

    for track in TRACKS.values():
        every = [
            read_settings(
                recipes.change(recipes.read(track.recipe), settings_of(track, way, Path("data"), []))
            ).training
            for way in track.ways
        ]
        before, *later = every
        assert before.steps is not None
        for each in later:
            assert each.batching == before.batching
            assert each.steps is not None
            assert each.steps <= before.steps
            assert each.steps == every[-1].steps


@pytest.mark.parametrize(
    ("track", "model", "rate"),
    [
        ("pronunciation", "model", 0.1),
        ("pronunciation-with-counts", "model.model", 0.1),
        ("translation", "model", 0.2),
        ("translation-transformer", "model", 0.2),
    ],
)
def test_what_a_recipe_has_lost_is_there_before(track: str, model: str, rate: float) -> None:
    from speedrun import TRACKS, settings_of

    made = {
        way: config.flatten(
            recipes.change(recipes.read(TRACKS[track].recipe), settings_of(TRACKS[track], way, Path("data"), []))
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


def test_the_differences_are_those_of_each_step_and_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import speedrun

    monkeypatch.setattr(speedrun, "spent", lambda run: (1, 1.0))
    right = metric("exact")
    found = {
        way: {1: (tmp_path / way, statistics_of(right, rights))}
        for way, rights in {"before": "rwww", "muon": "rrrw", "now": "rrww"}.items()
    }
    lines = [[each.strip() for each in line.strip("|").split("|")] for line in speedrun.rows("a track", found)]
    assert [(line[1], line[5].split()[0]) for line in lines[-3:]] == [
        ("muon minus before", "+50.00"),
        ("now minus muon", "-25.00"),
        ("now minus before", "+25.00"),
    ]


def test_the_picture_has_the_losses_of_all_seeds(tmp_path: Path) -> None:
    import speedrun

    found: dict[str, dict[int, tuple[Path, Statistics]]] = {}
    for way, losses in {"before": [2.0, 1.5], "now": [1.0, 0.5]}.items():
        found[way] = {}
        for seed in (1, 2):
            run = tmp_path / f"{way}-{seed}"
            run.mkdir()
            events = [
                {"event": "validation", "step": 10 * n, "seconds": 60.0 * n, "loss": loss + seed / 10}
                for n, loss in enumerate(losses, 1)
            ]
            (run / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in events), encoding="utf-8")
            found[way][seed] = run, statistics_of(metric("exact"), "r")
    speedrun.draw(found, tmp_path / "curves.svg")
    text = (tmp_path / "curves.svg").read_text(encoding="utf-8")
    assert text.count("<!-- before -->") == text.count("<!-- now -->") == 1
    assert "<!-- minutes of the processor, with validations -->" in text


def statistics_of(measured: Metric, rights: str) -> Statistics:
    """Statistics of one example for each letter: "r" is a right output."""
    outputs = [Prediction("x" if each == "r" else "y") for each in rights]
    return statistics([measured], outputs, [Example("", ("x",))] * len(rights))[0]
