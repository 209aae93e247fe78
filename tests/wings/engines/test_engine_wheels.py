"""engine/wheels: which machines there are, and with which flags every build compiles."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BUILDS = ("setup.py", "engine/CMakeLists.txt", "engine/flags")  # scripts read the last one
NUMBERS = {"-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros"}


def test_an_unknown_machine_is_named_with_those_that_exist() -> None:
    done = subprocess.run(["bash", "engine/wheels", "amiga"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("no such machine: amiga; there are: linux-x86_64 linux-aarch64 macos-arm64")


def test_each_cpp_test_runs_on_the_simulated_processor() -> None:
    (listed,) = re.findall(r"for test in (.*); do", (ROOT / "engine/wheels").read_text(encoding="utf-8"))
    assert set(listed.split()) == {path.stem for path in Path(__file__).parent.glob("*.cpp")}


@pytest.mark.parametrize("build", BUILDS)
def test_no_build_changes_numbers(build: str) -> None:
    text = (ROOT / build).read_text(encoding="utf-8")
    flags = {
        flag for flag in re.findall(r"-f[a-z-]+(?:=[a-z]+)?", text) if re.search("math|contract|zeros|reciprocal", flag)
    }
    assert flags == NUMBERS
