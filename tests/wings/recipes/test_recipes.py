"""Recipes as package data: their names, headers, bases and settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import transduce.core.recipes as recipes
from transduce import api
from transduce.core import config
from transduce.core.config import ConfigError
from transduce.core.types import Facts
from transduce.data.settings import Units
from transduce.training.settings import Settings

FIRST = """\
# Words to sounds, an LSTM with attention.
#
#   Scores 6.5 % in 60 minutes on two cores.

# no part of the header
[model]
type = "encoder-decoder"  # nor this
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "second.toml").write_text("[data]\nseed = 1\n", encoding="utf-8")
    (tmp_path / "first.toml").write_text(FIRST, encoding="utf-8")
    (tmp_path / "notes.txt").write_text("no recipe", encoding="utf-8")
    monkeypatch.setattr(recipes, "folders", lambda: [tmp_path])
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_a_recipe_is_its_tables_and_its_header() -> None:
    assert recipes.names() == ["first", "second"]
    assert recipes.read("first") == {"model": {"type": "encoder-decoder"}}
    assert recipes.headline("first") == "Words to sounds, an LSTM with attention."
    assert recipes.describe("first") == (
        "Words to sounds, an LSTM with attention.\n\n  Scores 6.5 % in 60 minutes on two cores."
    )
    assert recipes.headline("second") == recipes.describe("second") == ""


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("ask", [recipes.read, recipes.describe, recipes.headline])
@pytest.mark.parametrize("name", ["frist", "First", "../first"])
def test_an_unknown_recipe_is_told_the_nearest(ask: object, name: str) -> None:
    assert callable(ask)
    with pytest.raises(ConfigError, match=r'did you mean "first"\? Known: first, second; or give a path'):
        ask(name)


@pytest.mark.usefixtures("folder")
def test_a_run_in_place_of_a_recipe_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "run" / "config.toml", "data.size = 1\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        ConfigError, match=r"run is a run directory, and not a recipe: give its settings, run/config\.toml"
    ):
        recipes.read("run")


def test_a_broken_recipe_is_named(folder: Path) -> None:
    (folder / "broken.toml").write_text("a = = 1\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"recipe broken: not TOML: .*line 1"):
        recipes.read("broken")


# ---------------------------------------------------------------------- bases


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_recipe_changes_its_base(folder: Path) -> None:
    write(folder / "task.toml", "[data]\nseed = 1\n[training]\nminutes = 30\nclip = 2.0\n")
    write(folder / "task-lstm.toml", 'base = "task"\n[model]\ntype = "lstm"\nwidth = 3\nlayers = 2\n')
    write(folder / "task-gru.toml", 'base = "task-lstm"\nmodel = { type = "gru", width = 4 }\n[data]\nlines = "all"\n')
    assert recipes.read("task-gru") == {
        "data": {"seed": 1, "lines": "all"},
        "training": {"minutes": 30, "clip": 2.0},
        "model": {"type": "gru", "width": 4},
    }
    assert recipes.based_on("task") == ["task-lstm"]
    assert recipes.based_on("task-gru") == []


def test_a_budget_replaces_that_of_the_base(folder: Path) -> None:
    write(folder / "task.toml", "training = { minutes = 30, epochs = 2, clip = 2.0 }\n")
    write(folder / "short.toml", 'base = "task"\ntraining.steps = 5\n')
    write(folder / "other.toml", 'base = "task"\ntraining.clip = 1.0\n')
    assert recipes.read("short") == {"training": {"steps": 5, "clip": 2.0}}
    assert recipes.read("other") == {"training": {"minutes": 30, "epochs": 2, "clip": 1.0}}


@pytest.mark.parametrize("base", ["", 'base = "reverse"\n'])
def test_a_training_that_is_no_table_is_told(base: str, tmp_path: Path) -> None:
    mine = write(tmp_path / "mine.toml", f"training = 3\n{base}")
    assert recipes.read(mine)["training"] == 3
    with pytest.raises(ConfigError, match="training: 3 is an integer"):
        api.train(mine, tmp_path / "run", progress=False)
    with pytest.raises(ConfigError, match="training: 3 is an integer, not a table to set 'minutes' in"):
        api.train(mine, tmp_path / "run", {"training.minutes": 1}, progress=False)


def test_a_file_is_based_on_recipes_and_on_files_beside_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "mine" / "small.toml", 'base = "large.toml"\ndata.size = 1\n')
    write(tmp_path / "mine" / "large.toml", 'base = "../shared/all.toml"\ndata.size = 9\n')
    write(tmp_path / "shared" / "all.toml", 'base = "second"\ndata.shared = true\n')
    expected = {"data": {"seed": 1, "shared": True, "size": 1}}
    assert recipes.read(tmp_path / "mine" / "small.toml") == expected
    monkeypatch.chdir(tmp_path / "shared")
    assert recipes.read("../mine/small.toml") == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('base = "frist"', r'no recipe \'frist\'; did you mean "first"'),
        ('base = "../no/file.toml"', r"base: .*mine\.toml is based on .*file\.toml, and there is no such file"),
        ("base = 3", r"base: 3 is an integer, expected a recipe's name or a \.toml file's path"),
        ('base = "../here/mine.toml"', r"base: a circle, .*mine\.toml -> .*mine\.toml: one of these must stand alone"),
        ('base = "other.toml"', r"base: a circle, .*mine\.toml -> .*other\.toml -> .*mine\.toml: one"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_bases_that_are_none_are_told(text: str, message: str, tmp_path: Path) -> None:
    mine = write(tmp_path / "here" / "mine.toml", text + "\n")
    write(tmp_path / "here" / "other.toml", 'base = "../here/mine.toml"\n')
    with pytest.raises(ConfigError, match=message):
        recipes.read(mine)


def test_a_missing_file_that_is_no_base_is_itself_the_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"mine\.toml"):
        recipes.read(tmp_path / "mine.toml")


@pytest.mark.parametrize("name", recipes.names())
def test_every_recipe_reads_and_says_what_it_is(name: str) -> None:
    assert recipes.read(name)
    assert recipes.headline(name), f"{name}.toml opens with no comment; say what it scores, in how long, on what"


# ------------------------------------------------------------- a user's own data

MINE = {"path": "mine.tsv"}


def merged(name: str, settings: Any, text: str, tmp_path: Path) -> tuple[config.Table, str]:
    """The data of a recipe with the settings, and with the file ``text`` over it; and the notes."""
    if text:
        name = str(write(tmp_path / "mine.toml", f'base = "{name}"\n{text}'))
    found = recipes.merged(name, settings)
    return found.table["data"], "\n".join(found.notes)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (["data.train.path=mine.tsv"], ""),
        ({"data.train": MINE}, ""),
        ({"data.train": {"corpora": [MINE]}}, ""),
        ((), 'data.train.path = "mine.tsv"'),
        ({"training.steps": 3}, 'data.train = { path = "mine.tsv" }'),
    ],
)
def test_data_of_ones_own_end_what_a_recipe_says_of_its_data(settings: Any, text: str, tmp_path: Path) -> None:
    data, notes = merged("multi30k-many", settings, text, tmp_path)
    assert data.keys() & {"origin", "valid", "test"} == set()
    assert data["units"]["joint"] == {"type": "unigram", "size": 8000}  # not the tags of other languages
    assert "data.origin (multi30k-directions) and data.units.joint.whole" in notes
    assert "no valid and no test split; set data.valid and data.test" in notes


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (["data.train.path=mine.tsv", "data.origin.type=multi30k-directions"], ""),
        (["data.train.path=mine.tsv", "data.origin.folder=here"], ""),
        (["data.train.path=mine.tsv"], 'data.origin.type = "multi30k-directions"'),
        (["data.valid.path=mine.tsv"], ""),
        (["data.origin.folder=here"], ""),
        ((), ""),
    ],
)
def test_an_origin_that_is_asked_for_stays(settings: Any, text: str, tmp_path: Path) -> None:
    data, notes = merged("multi30k-many", settings, text, tmp_path)
    assert data["origin"]["type"] == "multi30k-directions"
    assert "data.origin" not in notes
    assert ("whole" in data["units"]["joint"]) == ("mine.tsv" not in str(data.get("train")))


def test_another_origin_brings_other_data(tmp_path: Path) -> None:
    data, notes = merged("multi30k-many", {"data.origin": {"type": "multi30k", "source": "de"}}, "", tmp_path)
    assert data["origin"] == {"type": "multi30k", "source": "de"}
    assert notes == (
        'your data replace the recipe\'s, so its data.units.joint.whole (["__de__", "__en__", "__fr__"]) is left out'
    )


def test_splits_of_ones_own_stay_and_nothing_is_told_of_an_origin_without_effect(tmp_path: Path) -> None:
    every = {f"data.{split}.path": f"{split}.tsv" for split in ("train", "valid", "test")}
    assert merged("g2p", every, "", tmp_path)[1] == ""
    data, notes = merged("g2p", {"data.train.path": "mine.tsv"}, 'data.test.path = "test.tsv"', tmp_path)
    assert data["test"] == {"path": "test.tsv"}
    assert "no valid split; set data.valid, or" in notes


def test_what_cannot_be_left_out_is_told(tmp_path: Path) -> None:
    own = {"data.origin": {"type": "series", "path": "sales.csv"}}
    assert merged("series-lstm", own, "", tmp_path)[1] == (
        'chosen for the recipe\'s data, so set them if yours differ: metrics = ["mae", "rmse", "mase-12"]'
    )
    assert merged("series-lstm", own | {"metrics": ["mae"]}, "", tmp_path)[1] == ""


def test_a_run_that_goes_on_follows_the_same_rule() -> None:
    run = {"data": {"origin": {"type": "cmudict"}, "units": {}}, "training": {"steps": 3}}
    found = recipes.continued(run, {"data.train.path": "mine.tsv", "training.minutes": 1})
    assert found.table == {"data": {"units": {}, "train": MINE}, "training": {"minutes": 1}}
    assert "data.origin (cmudict) is left out" in found.notes[0]
    assert recipes.continued(run, {}).table == run
    mine = {"data": {"train": MINE, "valid": MINE, "origin": {"type": "cmudict"}}}
    assert recipes.continued(mine, {"data.train.path": "moved.tsv"}).table["data"].keys() == mine["data"].keys()
    measured = {"data": {"valid": MINE, "origin": {"type": "cmudict"}}}
    assert recipes.continued(measured, {"data.train.path": "mine.tsv"}).table == {
        "data": {"valid": MINE, "train": MINE}
    }


OF_ONE_DATA_SET = ("whole", "penalties", "period", "lexicon", "language_model", "word_vectors", "always_in")
"""Last parts of keys whose values fit one data set."""


@pytest.mark.parametrize("name", recipes.names())
def test_a_recipe_lists_what_speaks_of_its_data(name: str) -> None:
    """A setting that fits one data set is left out or told, and lists name only settings that there are."""
    table, user = recipes.read(name), {"data.train.path": "mine.tsv"}
    found = recipes.merged(name, user)
    told = "\n".join(found.notes)
    assert found.table["data"].keys() & {"origin", "valid", "test"} == set()
    for key, value in config.flatten(table).items():
        season = "mase-" in str(value)
        if season or "period = " in config.errors.shown(value) or {*key.split(".")} & {*OF_ONE_DATA_SET}:
            assert any(f"{key.rsplit('.', cut)[0]} " in told for cut in (0, 1)), key
    for key in recipes.own_tables(name).get("about_data", []):
        assert key in told, key


def test_a_list_about_data_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="about_data"):
        recipes.read(write(tmp_path / "mine.toml", "about_data = 3\n"))


@pytest.mark.parametrize("name", [name for name in recipes.names() if "model" in recipes.read(name)])
def test_every_recipe_of_a_model_makes_it(name: str) -> None:
    table = recipes.read(name)
    settings = config.build(table, Settings, facts(table["data"]["units"]))
    with torch.device("meta"):  # no weights
        model = settings.model()
    assert list(model.parameters())


def facts(units: config.Table) -> Facts:
    """Facts that data of these units could have. For a signal, they include the numbers per time step."""
    if all(each == "numbers" for each in units.values()):
        return Facts(1, 1)
    if units.get("source") == "numbers":
        return Facts(1, 60, 1)
    source: Any = config.build(units, Units, path="units").source
    if source is None or not source.signal:
        words, factors = 9 if getattr(source, "words", None) else 0, getattr(source, "factors", 1)
        brackets = (4,) if units.get("target") == "tree-brackets" else ()
        return Facts(60, 60, source_words=words, source_factors=factors, placeholders=brackets)
    step = source.channels * source.size
    return Facts(step, 60, step)
