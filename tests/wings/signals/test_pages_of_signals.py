"""What the wing signals adds to test_pages.py."""

from __future__ import annotations

import math
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from test_pages import DOCS, block

from transduce.cli.app import app
from transduce.runs.loading import load


@pytest.fixture
def sales(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page's table, in a folder of its own, from which its commands are run."""
    rows = [f"{100 + day % 7},{3 + day % 2 / 2}" for day in range(300)]
    (tmp_path / "sales.csv").write_text("\n".join(["sold,price", *rows]) + "\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_series_of_the_page_is_forecast(sales: Path) -> None:
    text = (DOCS / "series.md").read_text(encoding="utf-8")
    (command,) = (
        block for block in re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL) if "sales" in block
    )
    app([*shlex.split(command.replace("\\\n", " "))[1:], "--set", "training.steps=2"], standalone_mode=False)
    forecast = load(sales / "runs" / "sales")(" ".join(["100,3"] * 28))
    assert len([float(number) for number in forecast.split()]) == 7


@pytest.mark.usefixtures("sales")
def test_the_code_of_the_page_on_series_runs() -> None:
    given: dict[str, Any] = {}
    exec(block("series", "python").replace('"training.steps": 200', '"training.steps": 2'), given)
    assert len(given["forecast"]) == 12
    assert all(map(math.isfinite, given["forecast"]))
