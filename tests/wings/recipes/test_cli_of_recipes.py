"""What the wing recipes adds to test_cli.py."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from test_cli import Call, told

from transduce.core import config, recipes
from transduce.wings.recipes.commands import print_list
from transduce.wings.recipes.tasks import TASKS, task_of


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


def test_recipes_are_listed_by_task_with_what_they_should_score(call: Call) -> None:
    status, out, _ = call("recipes")
    assert status == 0
    lines = {line.split()[0]: line for line in out.splitlines() if line.startswith("  ")}
    assert sorted(lines) == recipes.names()
    assert re.fullmatch(r"  g2p +per \d\.\d+ +\d+\.\d min  Grapheme to phoneme: .*", lines["g2p"])
    assert "A base without a model of: clips-caption, clips-labels." in lines["clips"]
    assert out.index("\nSpeech\n") < out.index("\n  digits ") < out.index("\nPictures and clips\n")


def test_recipes_are_found_by_what_their_descriptions_say(call: Call) -> None:
    status, out, _ = call("recipes", "--search", "KNESER")
    assert status == 0
    named = [line.split()[0] for line in out.splitlines() if line.startswith("  ")]
    assert named == [name for name in recipes.names() if "kneser" in recipes.describe(name).lower()]
    assert "no recipe has 'zzz'" in told(call("recipes", "--search", "zzz"))


def test_each_recipe_belongs_to_a_task_and_each_beginning_of_a_name_to_a_recipe() -> None:
    assert {task_of(name) for name in recipes.names()} == set(TASKS)
    parts = [part for parts in TASKS.values() for part in parts]
    assert len(set(parts)) == len(parts)
    assert all(any(f"{name}-".startswith(f"{part}-") for name in recipes.names()) for part in parts)


def test_a_narrow_terminal_has_what_a_recipe_learns_on_a_line_of_its_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_list(["g2p-ctc"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split()[:2] == ["g2p-ctc", "per"]
    assert lines[3] == "      Grapheme to phoneme by CTC: each letter has two"
