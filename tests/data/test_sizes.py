"""Settings by the number of training pairs: the choice, the settings that it keeps, and the written config."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from transduce import api
from transduce.core import config, recipes
from transduce.core.config import ConfigError
from transduce.training.request import TrainingRequest
from transduce.training.sizes import Alternative, choose_settings

TABLE: config.Table = {"data": {"cache": "here"}, "model": "large", "init": {"run": "before"}, "metrics": ["exact"]}


@pytest.mark.parametrize(("pairs", "model"), [(9, "tiny"), (10, "small"), (99, "small"), (100, "large")])
def test_the_smallest_limit_above_the_number_of_pairs_wins(pairs: int, model: str) -> None:
    sizes = [Alternative(100, "b", {"model": "small", "data": {}}), Alternative(10, "a", {"model": "tiny"})]
    chosen, lines = choose_settings(TABLE, sizes, pairs)
    assert chosen["model"] == model
    assert chosen["data"] == TABLE["data"]
    assert chosen["init"] == TABLE["init"]
    assert ("metrics" in chosen, len(lines)) == ((True, 0) if model == "large" else (False, 1))


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_run_of_few_pairs_has_the_settings_for_few(tmp_path: Path) -> None:
    write(tmp_path / "few.toml", 'base = "reverse"\n[model.encoder]\nwidth = 12\n[training]\nsteps = 3\n')
    few = tmp_path / "few.toml"
    mine = write(tmp_path / "mine.toml", f'base = "reverse"\nsizes = [{{ below = 30, recipe = "{few}" }}]\n')
    pairs = [(word, word[::-1]) for word in ("ab", "abc", "bca", "ca")] * 10
    settings: dict[str, Any] = {"training.batching.tokens": 77, "training.validation.times": 0}
    for number, width in ((20, 12), (40, recipes.read("reverse")["model"]["encoder"]["width"])):
        budget = {} if width == 12 else {"training.steps": 2}
        run = api.train_run(
            TrainingRequest(mine, tmp_path / str(number), settings | budget, pairs[:number]), progress=False
        )
        written = config.read(run / "config.toml")
        assert written["model"]["encoder"]["width"] == width
        assert written["training"]["batching"]["tokens"] == 77  # --set applies to each
        assert "sizes" not in written
    assert api.train_run(
        TrainingRequest(mine, tmp_path / "20", resume=True), progress=False
    )  # its settings are its own now


def test_sizes_are_no_settings_and_not_inherited(tmp_path: Path) -> None:
    mine = write(tmp_path / "mine.toml", 'sizes = [{ below = 9, recipe = "b" }, { below = 3, recipe = "a" }]\n')
    heir = write(tmp_path / "heir.toml", 'base = "mine.toml"\n')
    assert [(size.below, size.recipe) for size in recipes.Recipe.of(mine).sizes] == [(3, "a"), (9, "b")]
    assert recipes.read(mine) == recipes.read(heir) == {}
    assert recipes.Recipe.of(heir).sizes == ()


@pytest.mark.parametrize("wrong", ["3", "[{ below = 3 }]", '[{ below = "3", recipe = "a" }]'])
def test_malformed_sizes_are_named(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(ConfigError, match="sizes"):
        recipes.Recipe.of(write(tmp_path / "mine.toml", f"sizes = {wrong}\n"))


@pytest.mark.parametrize("name", recipes.names())
def test_every_size_of_a_recipe_is_a_recipe_of_the_same_data(name: str) -> None:
    for size in recipes.Recipe.of(name).sizes:
        own = {key: value for key, value in recipes.read(name)["data"].items() if key != "origin"}
        assert recipes.read(size.recipe)["data"] == own  # the data of little text are the user's
        assert not recipes.Recipe.of(size.recipe).sizes
