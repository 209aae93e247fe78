"""The hall stands without its wings: a copy of the package that has none passes the laws and the tests of the hall."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OF_ALL = ("wings", "docs", "faults", "test_arrows.py", "test_hall.py")  # tests that speak of wings
REFUSED = {
    "train --set model.type=hmm": "model 'hmm' belongs to the wing 'counted'",
    "train --set data.units.source.type=sound": "unit 'sound' belongs to the wing 'signals'",
    'train --set metrics=["rouge1"]': "metric 'rouge1' belongs to the wing 'summaries'",
    "train g2p": "the recipe 'g2p' belongs to the wing 'recipes'",
    "inspect RUN": "the command 'inspect' belongs to the wing 'looking'",
    "serve RUN": "the command 'serve' belongs to the wing 'serving'",
    "predict RUN --engine native": "the service 'native engine' belongs to the wing 'engines'",
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package and its tests, without wings and what speaks of them."""
    place = tmp_path_factory.mktemp("hall")
    unneeded = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", place / "src", ignore=unneeded)
    shutil.rmtree(place / "src" / "transduce" / "wings")
    shutil.copytree(ROOT / "tests", place / "tests", ignore=shutil.ignore_patterns("__pycache__", *OF_ALL))
    for name in ("docs", "scripts"):
        shutil.copytree(ROOT / name, place / name, ignore=unneeded)
    for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, place)
    return place


def run(copy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(copy / "src")}
    environment.pop("PYTEST_ADDOPTS", None)
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=copy, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_the_hall_passes_its_tests_alone(copy: Path) -> None:
    done = run(copy, "pytest", "tests", "-m", "not slow", "-p", "no:cacheprovider", "--hypothesis-profile=ci")
    assert done.returncode == 0, done.stdout[-5000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 3000, "the tests of the hall are no longer with it"


def test_what_a_wing_had_brought_is_refused_with_its_name(copy: Path, trained: Path) -> None:
    where = run(copy, "transduce", "--help")
    assert "serve" in where.stdout
    for command, told in REFUSED.items():
        verb, *options = command.replace("RUN", str(trained)).split()
        recipe = ["reverse", f"--out={copy / 'run'}"] if options[0] == "--set" else []
        done = run(copy, "transduce", verb, *recipe, *options)
        assert done.returncode == 2, done.stdout
        assert done.stderr.startswith(f"transduce: {told}, which this installation of transduce does not have"), told
        assert done.stderr.count("\n") == 1
