"""What a user asks of a training, before it begins."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from transduce.core import config
from transduce.core.errors import UserError
from transduce.training.request import TrainingRequest

PAIRS = [("ab", "ba"), ("abc", "cba")] * 20


def test_each_file_of_a_recipe_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "few.toml").write_text('base = "reverse"\n[training]\nsteps = 3\n', encoding="utf-8")
    sizes = f'base = "reverse"\nsizes = [{{ below = 30, recipe = "{tmp_path / "few.toml"}" }}]\n'
    (tmp_path / "mine.toml").write_text(sizes, encoding="utf-8")
    times, read = Counter[str](), config.read

    def counted(path: Any) -> config.Table:
        times[Path(path).name] += 1
        return read(path)

    monkeypatch.setattr(config, "read", counted)
    job = TrainingRequest(tmp_path / "mine.toml", tmp_path / "run", pairs=PAIRS).job()
    assert times == {"mine.toml": 1, "few.toml": 1}
    assert [size.table["training"]["steps"] for size in job.sizes] == [3]
    assert job.pairs is not None
    assert {split: len(lines) for split, lines in job.pairs.lines.items()} == {"train": 38, "valid": 2}


@pytest.mark.parametrize("settings", [["training.steps=7"], {"training.steps": 7}, "training.steps=7"], ids=str)
def test_the_run_to_start_from_is_one_more_setting(settings: Any, tmp_path: Path) -> None:
    job = TrainingRequest("reverse", tmp_path / "run", settings, init=tmp_path / 'a "b"', teacher="runs/c").job()
    assert job.table["init"] == {"run": str(tmp_path / 'a "b"')}
    assert job.table["distillation"] == {"teacher": "runs/c"}
    assert job.table["training"]["steps"] == 7


def test_going_on_and_overwriting_at_once_is_refused() -> None:
    with pytest.raises(UserError, match="give one of them"):
        TrainingRequest("reverse", resume=True, overwrite=True)
