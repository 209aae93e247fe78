"""The wheel and the sdist: they have every file, and a wheel built from the unpacked sdist works in another folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from transduce.compute.library import VARIANTS

ROOT = Path(__file__).parents[1]
PACKAGES = ("transduce", "transduce_engine")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist of the files that git tracks, unpacked: the build's own output must not land in the clone."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True)
    if listed.returncode:
        pytest.skip("this is no clone: git lists the files that an sdist is made of")
    clone = tmp_path_factory.mktemp("clone")
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            (clone / name).write_bytes((ROOT / name).read_bytes())
    built = tmp_path_factory.mktemp("sdist")
    _build(clone, "build_sdist", built)
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        archive.extractall(built, filter="data")
    return next(path for path in built.iterdir() if path.is_dir())


@pytest.fixture(scope="module")
def packed(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the unpacked sdist."""
    built = tmp_path_factory.mktemp("wheel")
    _build(sdist, "build_wheel", built)
    return next(built.glob("*.whl"))


@pytest.fixture(scope="module")
def wheel(packed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked."""
    unpacked = tmp_path_factory.mktemp("site-packages")
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(unpacked)
    return unpacked


def test_the_wheel_is_for_every_python_of_a_platform(packed: Path, wheel: Path) -> None:
    assert re.fullmatch(r"transduce-[\d.]+-py3-none-(linux|macosx|win)\w+|.*-py3-none-any", packed.stem)
    libraries = [path.name for path in wheel.rglob("*.so")]
    assert set(libraries) <= {f"{name}.so" for name in VARIANTS}


def test_the_wheel_has_every_file_of_the_package_and_its_licence(wheel: Path) -> None:
    source = ROOT / "src"
    expected = {
        str(path.relative_to(source))
        for name in PACKAGES
        for path in (source / name).rglob("*")
        if path.is_file() and _shipped(path)
    }
    names = {str(path.relative_to(wheel)) for path in wheel.rglob("*") if path.is_file() and _shipped(path)}
    package = {name for name in names if name.split("/")[0] in PACKAGES}
    assert package == expected
    (information,) = {name.split("/")[0] for name in names - package}
    assert {f"{information}/licenses/LICENSE", f"{information}/entry_points.txt"} <= names
    metadata = (wheel / information / "METADATA").read_text(encoding="utf-8")
    assert "License-Expression: Apache-2.0" in metadata
    assert "Requires-Dist: fastapi" in metadata  # an extra, which only `serve` needs ...
    assert all("extra ==" in line for line in metadata.splitlines() if "Requires-Dist: fastapi" in line)


def test_the_sdist_has_what_its_tests_read(sdist: Path) -> None:
    for name in ("LICENSE", "CHANGELOG.md", "constraints.txt", "tests/families.py", "docs/start.md", "scripts/test"):
        assert (sdist / name).is_file(), name


def test_the_wheel_trains_and_its_packed_run_answers_alike_elsewhere(wheel: Path, tmp_path: Path) -> None:
    """Elsewhere is another folder, another home and another installation: the clone."""
    settings = ["training.steps=2", "data.origin.pairs=60", "data.cache=cache", "training.precision=float32"]
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    for folder in (here, elsewhere):
        folder.mkdir()
    _transduce(wheel, here, "train", "reverse", "--out", "run", *(w for s in settings for w in ("--set", s)))
    answers = _transduce(wheel, here, "predict", "run", "--format", "jsonl", stdin="abc\ndef\n")
    assert len(answers.splitlines()) == 2
    _transduce(wheel, here, "pack", "run", "--out", "run.zip", "--evaluate", "none")
    (here / "run.zip").rename(elsewhere / "given.zip")
    shutil.rmtree(here)
    assert (
        _transduce(ROOT / "src", elsewhere, "predict", "given.zip", "--format", "jsonl", stdin="abc\ndef\n") == answers
    )


def _build(folder: Path, hook: str, out: Path) -> None:
    """Calls the build backend as pip does, without its isolated environment, which needs a network. The compiler need
    not optimise, because nothing is measured.
    """
    code = f"from setuptools import build_meta; build_meta.{hook}({str(out)!r})"
    quick = os.environ | {"CFLAGS": "-O0", "CXXFLAGS": "-O0"}
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, env=quick, capture_output=True, text=True)
    assert not done.returncode, done.stderr


def _shipped(path: Path) -> bool:
    return path.suffix not in (".pyc", ".so") and "__pycache__" not in path.parts


def _transduce(wheel: Path, folder: Path, *arguments: str, stdin: str = "") -> str:
    """Runs the command in ``folder``, which is the home too, with the unpacked wheel before other places of modules."""
    code = "import sys, transduce; assert transduce.__file__.startswith(sys.argv.pop(1)), transduce.__file__; "
    code += "from transduce.cli.app import main; main()"
    environment = os.environ | {"PYTHONPATH": str(wheel), "OMP_NUM_THREADS": "1", "HOME": str(folder)}
    command = [sys.executable, "-c", code, str(wheel), *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, input=stdin, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return done.stdout
