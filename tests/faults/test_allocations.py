"""A native prediction whose memory is refused: an error that tells of the memory, or the right output."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from failing import failing

from transduce.wings.engines.export.checked_export import export_run


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no C compiler: gcc")
@pytest.mark.parametrize("allocations", [100, pytest.param(2_000, marks=pytest.mark.slow)])
def test_each_allocation_may_fail(allocations: int, trained: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.engine"
    export_run(trained, "engine", file, sources=["abc"])
    with failing(tmp_path) as broken:
        ended = broken(engine=str(file), texts=["abc", "", "cab" * 5], allocations=allocations)
    assert ended.status == 0, ended.told
    failed = int(ended.told.split()[-2])
    assert failed > 20, "hardly an allocation was refused"
