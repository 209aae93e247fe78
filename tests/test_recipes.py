"""Recipes as package data: their names, headers, bases and settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import transduce.recipes as recipes
from transduce import api, config
from transduce.config import ConfigError
from transduce.data.settings import Units
from transduce.training.settings import Settings
from transduce.types import Facts

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
    monkeypatch.setattr(recipes, "FOLDER", tmp_path)
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


def test_what_takes_the_place_of_a_recipe_is_told() -> None:
    with pytest.raises(ConfigError, match=r"the recipe 'ocr-lines-ctc' is gone; in its place: ocr-lines$"):
        recipes.read("ocr-lines-ctc")


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
        words = 9 if getattr(source, "words", None) else 0
        return Facts(60, 60, source_words=words, placeholders=(4,) if units.get("target") == "tree-brackets" else ())
    step = source.channels * source.size
    return Facts(step, 60, step)
