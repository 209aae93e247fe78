"""What the wing recipes adds to test_api.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from transduce import api
from transduce.core import config, recipes


def test_a_recipe_that_is_only_a_base_names_those_that_add_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "task.toml").write_text("[training]\nsteps = 1\n", encoding="utf-8")
    (tmp_path / "task-large.toml").write_text('base = "task"\n', encoding="utf-8")
    monkeypatch.setattr(recipes, "folders", lambda: [tmp_path])
    with pytest.raises(config.ConfigError, match="model: missing; task is the base of task-large: train one of these"):
        api.train("task", tmp_path / "run")
    with pytest.raises(config.ConfigError, match="missing; Settings needs data"):  # no recipe has it as its base
        api.train("task-large", tmp_path / "run")
    with pytest.raises(config.ConfigError, match="missing; Settings needs data"):
        api.train("task", tmp_path / "run", {"model": {"type": "joint-ngram"}})
