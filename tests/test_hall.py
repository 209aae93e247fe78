"""The hall stands without its wings: a copy of the package that has none passes the laws and the tests of the hall.
There, each law and each family has a case, and each other test one. All cases run beside the wings.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OF_ALL = ("wings", "docs", "faults", "test_arrows.py", "test_hall.py")  # tests that speak of wings
FIRST_CASES = """
def pytest_collection_modifyitems(items):
    seen = set()

    def is_new(item):
        found = {item.function}
        if "laws" in item.path.name and hasattr(item, "callspec"):
            found |= {value for value in item.callspec.params.values() if isinstance(value, str)}
        new = found - seen
        seen.update(new)
        return new

    items[:] = [item for item in items if is_new(item)]
"""
COMMANDS = """
import io, os, sys
from contextlib import redirect_stderr, redirect_stdout
from transduce.cli.app import main
for command in sys.stdin.read().splitlines():
    sys.argv = ["transduce", *command.split()]
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        try:
            main()
        except SystemExit as ended:
            status = ended.code or 0
    print(repr((status, out.getvalue(), err.getvalue())))
"""
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
    shutil.copytree(ROOT / "src", place / "src")
    shutil.rmtree(place / "src" / "transduce" / "wings")
    shutil.copytree(ROOT / "tests", place / "tests", ignore=shutil.ignore_patterns(*OF_ALL))
    for name in ("docs", "scripts"):
        shutil.copytree(ROOT / name, place / name)
    for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, place)
    (place / "first_cases.py").write_text(FIRST_CASES)
    return place


def run(copy: Path, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(copy / "src")}
    environment.pop("PYTEST_ADDOPTS", None)
    return subprocess.run(
        [sys.executable, *words], cwd=copy, env=environment, input=given, capture_output=True, text=True
    )


@pytest.mark.slow
def test_the_hall_passes_its_tests_alone(copy: Path) -> None:
    options = ("-m", "not slow", "-p", "no:cacheprovider", "-p", "first_cases", "--hypothesis-profile=ci")
    done = run(copy, "-m", "pytest", "tests", *options)
    assert done.returncode == 0, done.stdout[-5000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 1000, "the tests of the hall are no longer with it"


def test_what_a_wing_had_brought_is_refused_with_its_name(copy: Path, trained: Path) -> None:
    asked = [f"{command} --out={copy / 'run'}" if "--set" in command else command for command in REFUSED]
    asked = [command.replace("RUN", str(trained)).replace("train --set", "train reverse --set") for command in asked]
    done = run(copy, "-c", COMMANDS, given="\n".join(["--help", *asked]))
    assert done.returncode == 0, done.stderr
    helped, *ended = map(ast.literal_eval, done.stdout.splitlines())
    assert "serve" in helped[1]
    for told, (status, _, err) in zip(REFUSED.values(), ended, strict=True):
        assert status == 2, err
        assert err.startswith(f"transduce: {told}, which this installation of transduce does not have"), err
        assert err.count("\n") == 1
