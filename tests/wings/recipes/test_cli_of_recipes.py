"""What the wing recipes adds to test_cli.py."""

from __future__ import annotations

from pathlib import Path

from test_cli import Call, told

from transduce.core import config, recipes


def test_one_recipe_is_shown_with_its_settings(call: Call, tmp_path: Path) -> None:
    """The settings of its base are shown too. The output is a file that can be trained."""
    name = next(name for name in recipes.names() if "base" in recipes.own_tables(name))
    status, out, _ = call("recipes", name)
    assert status == 0
    assert out.startswith(f"# {recipes.headline(name)}")
    (tmp_path / "mine.toml").write_text(out, encoding="utf-8")
    assert config.read(tmp_path / "mine.toml") == recipes.read(name)
    assert "no recipe 'revers'; did you mean" in told(call("recipes", "revers"))


def test_recipes_shows_a_file_with_the_settings_of_its_base(call: Call, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('# My recipe.\nbase = "reverse"\n[training]\nsteps = 7\n')
    status, out, _ = call("recipes", own)
    assert status == 0
    assert out.startswith("# My recipe.\n\n")
    assert config.parse(out.encode(), "shown") == recipes.read(own)
    assert "steps = 7" in out
    assert "none.toml: there is no such file" in told(call("recipes", tmp_path / "none.toml"))


def test_recipes_are_shown_with_what_they_should_score(call: Call) -> None:
    status, out, _ = call("recipes")
    assert status == 0
    for name in recipes.names():
        assert f"{name}\n    {recipes.headline(name)}" in out
    assert out.count("A base without a model.") == sum("model" not in recipes.read(name) for name in recipes.names())
    assert "    A base without a model. Train one of these: clips-caption, clips-labels\n" in out
