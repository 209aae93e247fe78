"""Bad input of every format, for a second; and each input that failed in a soak once."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pytest
from strangers import KEPT, Format, damaged, formats

COUNT = 40
FAILED_ONCE = sorted(path.name for path in KEPT.glob("*")) if KEPT.exists() else []


@pytest.fixture(scope="module")
def every(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Format]:
    return formats(tmp_path_factory.mktemp("strangers"), trained)


def test_whole_inputs_are_read(every: Mapping[str, Format]) -> None:
    """The damage begins with something that a reader understands."""
    for name, form in every.items():
        for seed in form.seeds:
            form.read(seed)
            assert form.failure(seed) is None, name


@pytest.mark.parametrize("times", [1, pytest.param(50, marks=pytest.mark.slow)])
def test_bad_input_is_read_or_refused_in_a_line(times: int, every: Mapping[str, Format]) -> None:
    draw = random.Random(66)
    for name, form in every.items():
        for _ in range(times * (COUNT // 8 if name in ("http", "pack", "picture") else COUNT)):
            content = damaged(form.seeds, draw)
            assert form.failure(content) is None, (name, content)


@pytest.mark.parametrize("name", FAILED_ONCE)
def test_what_failed_once_does_not_fail_again(name: str, every: Mapping[str, Format]) -> None:
    assert every[name.rpartition("-")[0]].failure((KEPT / name).read_bytes()) is None


def test_a_reader_with_a_bug_is_found() -> None:
    """The layer itself."""
    assert (
        Format([], lambda content: 1 // len(content)).failure(b"") == "ZeroDivisionError at test_strangers.py:<lambda>"
    )
