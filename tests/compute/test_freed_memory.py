"""Freed memory stays with the process that trains or answers."""

from __future__ import annotations

import platform
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from transduce.compute.memory import SETTINGS, keep_freed_memory
from transduce.runs import loading

RESIDENT = """
import sys
from pathlib import Path
from types import ModuleType
sys.modules["torch"] = ModuleType("torch")  # its import takes seconds, and nothing here needs it
from transduce.compute.memory import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
resident = lambda: int(Path("/proc/self/statm").read_text().split()[1])
before, used = resident(), [b"x" * 2**size for size in (20, 21, 22, 23, 24)]
used.clear()
print(resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="an option of glibc")
def test_freed_memory_stays_resident(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    returned, kept = (
        int(subprocess.run([sys.executable, "-c", RESIDENT, how], capture_output=True, check=True).stdout)
        for how in ("return", "keep")
    )
    pages = 2**25 // resource.getpagesize()
    assert returned < 0.1 * pages
    assert kept > 0.8 * pages


def test_a_loaded_model_keeps_freed_memory(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[bool] = []
    monkeypatch.setattr(loading, "keep_freed_memory", lambda: calls.append(True))
    loading.load(trained)
    assert calls


def test_the_environments_own_settings_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "131072")
    assert not keep_freed_memory()
