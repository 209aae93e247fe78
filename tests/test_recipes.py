"""Recipes as package data: which there are, what they say, what they hold."""

from __future__ import annotations

from pathlib import Path

import pytest

import transduce.recipes as recipes
from transduce.config import ConfigError

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


def test_a_broken_recipe_is_named(folder: Path) -> None:
    (folder / "broken.toml").write_text("a = = 1\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"recipe broken: not TOML: .*line 1"):
        recipes.read("broken")


@pytest.mark.parametrize("name", recipes.names())
def test_every_recipe_reads_and_says_what_it_is(name: str) -> None:
    assert recipes.read(name)
    assert recipes.headline(name), f"{name}.toml opens with no comment; say what it scores, in how long, on what"
