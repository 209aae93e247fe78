"""One user's run, plain or packed, is used by another user of the machine. The outputs have the same bytes, even if
nothing may be written.

Only root can start processes of other users. The other user gets a copy of both packages, as in another place."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from transduce import api
from transduce.training.request import TrainingRequest
from transduce.wings.engines.sharing.packing import pack

ROOT = Path(__file__).parents[3]
NOBODY = 65534
VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
SETTINGS = ["training.steps=2", "data.origin.pairs=60", "training.precision=float32", "training.validation.metrics=[]"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root, to become another user"),
]


@dataclass(frozen=True)
class Machine:
    """The other user's machine: an interpreter, and ``given`` and ``given.zip`` in the folder ``shared``."""

    shared: Path
    interpreter: Path
    environment: dict[str, str]

    def transduce(self, home: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
        """Runs a command as the other user."""
        return self.python(home, "-m", "transduce", *arguments, **variables)

    def python(self, home: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [str(self.interpreter), *arguments],
            cwd=self.shared,
            env=self.environment | {"HOME": str(home)} | variables,
            input=b"abc\ndef\n",
            capture_output=True,
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            umask=0o077,
        )


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with tempfile.TemporaryDirectory(prefix="transduce-") as name:  # pytest's own folders are closed to other users
        place = Path(name)
        for package in ("transduce", "transduce_engine"):
            shutil.copytree(
                ROOT / "src" / package, place / "src" / package, ignore=shutil.ignore_patterns("__pycache__")
            )
        interpreter, environment = _interpreter(place)
        paths = os.pathsep.join([str(place / "src"), sysconfig.get_path("purelib")])
        environment |= {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "PATH": os.defpath}
        run = api.train_run(TrainingRequest("reverse", place / "run", SETTINGS), device="cpu", progress=False)
        for out in ("given", "given.zip"):
            pack(run, place / "shared" / out)
        shutil.rmtree(run)
        _make_read_only(place)
        found = Machine(place / "shared", interpreter, environment)
        tried = found.python(place, "-c", "import torch")
        if tried.returncode:
            pytest.skip(f"user {NOBODY} cannot import torch: {tried.stderr.decode().splitlines()[-1]}")
        yield found


@pytest.fixture(scope="module")
def answers(machine: Machine) -> bytes:
    """Root's outputs, by this installation."""
    command = [sys.executable, "-m", "transduce", "predict", "given", "--format", "jsonl"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, cwd=machine.shared, env=environment, input=b"abc\ndef\n", capture_output=True, check=True
    ).stdout


@pytest.fixture
def home() -> Iterator[Path]:
    """A home directory of the other user."""
    with tempfile.TemporaryDirectory(prefix="transduce-") as name:
        os.chown(name, NOBODY, NOBODY)
        yield Path(name)


@pytest.mark.parametrize("name", ["given", "given.zip"])
def test_another_user_gets_the_same_bytes(name: str, machine: Machine, answers: bytes, home: Path) -> None:
    done = machine.transduce(home, "predict", name, "--format", "jsonl")
    assert done.stdout == answers, done.stderr.decode()
    assert len(answers.splitlines()) == 2


def test_a_user_without_a_home_is_told_what_to_do(machine: Machine, answers: bytes, home: Path) -> None:
    nowhere = machine.shared / "nobody"  # a home that does not exist, as for a service
    command = ("predict", "given.zip", "--format", "jsonl")
    refused = machine.transduce(nowhere, *command)
    assert refused.returncode == 2
    (line,) = refused.stderr.decode().splitlines()
    assert "nobody/.cache/transduce cannot be written" in line
    assert machine.transduce(nowhere, *command, XDG_CACHE_HOME=str(home)).stdout == answers
    assert machine.transduce(nowhere, "predict", "given", "--format", "jsonl").stdout == answers


def test_a_run_whose_data_cannot_be_prepared_beside_it_is_to_be_copied(machine: Machine, home: Path) -> None:
    refused = machine.transduce(home, "evaluate", "given")
    assert refused.returncode == 2
    (line,) = refused.stderr.decode().splitlines()
    assert line == (
        "transduce: .cache cannot be written (Permission denied), and the run's data are prepared there: copy the run "
        "to a folder of yours (cp -r given DIR), and name the copy"
    )


def _interpreter(place: Path) -> tuple[Path, dict[str, str]]:
    """This interpreter and no variables, if every user may start it. Otherwise a copy of it in ``place``, with its
    standard library, and the variables that it needs.
    """
    own, base = Path(sys.executable).resolve(), Path(sys.base_prefix)
    if all(folder.stat().st_mode & stat.S_IXOTH for folder in own.parents):
        return own, {}
    copy = place / "python"
    (copy / "bin").mkdir(parents=True)
    shutil.copy2(own, copy / "bin" / VERSION)
    left_out = shutil.ignore_patterns("site-packages", "test", "config-*", "__pycache__")
    shutil.copytree(base / "lib" / VERSION, copy / "lib" / VERSION, copy_function=_link, ignore=left_out)
    for library in (base / "lib").glob("libpython*.so*"):
        shutil.copy2(library, copy / "lib")
    return copy / "bin" / VERSION, {"PYTHONHOME": str(copy), "LD_LIBRARY_PATH": str(copy / "lib")}


def _link(source: str, target: str) -> None:
    """A hard link, or a copy on another file system."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _make_read_only(place: Path) -> None:
    """Lets everybody read the folder, and nobody write to it. A file that has another hard link keeps its mode."""
    place.chmod(0o755)
    for path in place.rglob("*"):
        with suppress(FileNotFoundError):
            if path.stat().st_nlink == 1 or path.is_dir():
                path.chmod(0o555 if path.is_dir() or os.access(path, os.X_OK) else 0o444)
