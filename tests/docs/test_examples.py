"""The programs in examples/ run, and learn what they say."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[2] / "examples"
GOOD = {
    "translation.py": lambda right: right > 95,
    "own_cell.py": lambda right: right >= 80,
    "own_search.py": lambda outputs: outputs == ["ecudsnart", "ecneuqes", "sisehtopyh"],
    "own_subject/roman.py": lambda distance: distance < 50,
}


@pytest.mark.slow
@pytest.mark.usefixtures("names_restored")
@pytest.mark.parametrize("name", GOOD)
def test_an_example_learns(name: str) -> None:
    torch.manual_seed(1)
    assert GOOD[name](runpy.run_path(str(EXAMPLES / name))["main"]())


def test_every_example_is_tested() -> None:
    assert {path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.py")} == set(GOOD)
