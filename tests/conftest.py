"""Fixtures. One tiny run is trained once; all tests that need a trained run share it."""

from __future__ import annotations

import gc
import io
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch

from transduce import api
from transduce.cli import app as cli
from transduce.core import registry
from transduce.runs import code
from transduce.runs.code import Code

# A container may switch byte code off: each of the many processes that tests start would compile the package again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The tests of a room may use those of another: all rooms can be imported from.
sys.path += [str(room) for room in sorted(Path(__file__).parent.rglob("*")) if room.is_dir()]

# A busy machine must not fail a test: hypothesis would refuse examples that are slow to draw.
hypothesis.settings.register_profile(
    "any-speed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any-speed")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Spares the garbage collector the tests and modules, which live to the end. A full collection takes a third of a
    second with them.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Sets one thread. Results are bit-exact only for an equal number of threads. Tiny models are fastest on one
    thread.
    """
    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def disk_is_not_waited_for() -> Iterator[None]:
    """Spares the wait for the disk, which is half of a tiny training. tests/faults records what is synced, and when."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def signals_are_heard() -> None:
    """Restores the default handlers. A shell ignores SIGINT for its background jobs, and nohup ignores SIGHUP; training
    would leave an ignored signal ignored.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Settings that shorten a run of ``reverse`` to a second. It has a few updates, validations, checkpoints and an
    average.
    """
    return {
        "data.origin": {"type": "reverse", "pairs": 120, "longest": 5},
        "data.cache": str(tmp_path_factory.mktemp("cache")),
        "model.encoder.embedding_width": 8,
        "model.encoder.width": 6,
        "model.encoder.dropout": 0.2,
        "model.decoder.embedding_width": 8,
        "model.decoder.width": 12,
        "model.decoder.dropout": 0.2,
        "training.steps": 8,
        "training.batching": {"tokens": 96},
        "training.precision": "float32",
        "training.checkpoint_every": 2,
        "training.average": 2,
        "training.validation.every": 3,
        "training.validation.examples": 4,
        "training.validation.search": {"type": "greedy", "max_length": 6},
        "search": {"type": "beam", "size": 2, "max_length": 6},
    }


@pytest.fixture(scope="session")
def trained(tiny: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run directory, for reading only. A test that changes a run uses ``own_run``."""
    torch.set_num_threads(1)  # an earlier test may have set another number
    run = tmp_path_factory.mktemp("runs") / "reverse"
    api.train("reverse", run, tiny, device="cpu", progress=False)
    return run


@pytest.fixture(scope="session")
def sister(tiny: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on the same data with another width and another seed."""
    run = tmp_path_factory.mktemp("runs") / "sister"
    api.train("reverse", run, tiny | {"training.seed": 2, "model.encoder.width": 4}, device="cpu", progress=False)
    return run


@pytest.fixture(scope="module")
def benchmarks() -> Iterator[None]:
    """The modules of the benchmarks can be imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
        yield


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium whose microphone hears a tone. Its event loop runs in this thread, so the fixture ends with
    the module: other tests have event loops of their own.
    """
    driver = pytest.importorskip("playwright.sync_api", reason="the browser's driver is not installed: playwright")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("there is no Chromium on this machine: install the system's package chromium")
    flags = ["--no-sandbox", "--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"]
    with driver.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=path, args=flags)
        yield opened
        opened.close()


@pytest.fixture
def terminal() -> Iterator[tuple[int, Path]]:
    """A device that a test may write to: the end that reads, and the path. A fault of the code would replace /dev/null
    for the whole machine.
    """
    ends = os.openpty()
    yield ends[0], Path(os.ttyname(ends[1]))
    for end in ends:
        os.close(end)


@pytest.fixture
def own_run(trained: Path, tmp_path: Path) -> Path:
    """A copy of the run that a test may change."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


@pytest.fixture
def names_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undoes the registrations of a test. A registration holds for the whole process."""
    monkeypatch.setattr(registry, "NAMES", {protocol: dict(known) for protocol, known in registry.NAMES.items()})
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Calls ``transduce`` with arguments and standard input. Returns exit status, standard output, standard error."""

    def calling(*arguments: object, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["transduce", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        monkeypatch.setenv("COLUMNS", "200")
        capsys.readouterr()
        status: Any = 0
        try:
            cli.main()
        except SystemExit as exit:
            status = exit.code or 0
        out, err = capsys.readouterr()
        return status, out, err

    return calling


@pytest.fixture(autouse=True)
def committed_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records are made as if the code were committed, because tests run while it is changed."""
    monkeypatch.setattr(code, "code", lambda: Code("0123456789"))
