"""The interface of a peer, which is installed, trains and predicts. Functions that run and measure its processes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any, Literal, Protocol

from peers.data import Data

BENCHMARKS = Path(__file__).resolve().parents[1]
Family = Literal["transformer", "recurrent"]
TORCH = "torch"  # the requirement; --torch names a version
TAIL = 15  # lines of a failed process that a message shows


class PeerError(Exception):
    """A peer could not be installed or could not run. The message is the reason."""


@dataclass(frozen=True)
class Speed:
    """``rate`` in target tokens or sentences a second, the largest ``memory`` of the process in MiB, and the
    ``parameters`` that are trained (0 if the toolkit does not say).
    """

    rate: float
    memory: float
    parameters: int = 0


@dataclass(frozen=True)
class Column:
    """A column of prediction: the beam size (1 is greedy search), the batch size, and the number of sentences."""

    beam: int
    batch: int
    count: int

    @property
    def name(self) -> str:
        search = "greedy" if self.beam == 1 else f"beam {self.beam}"
        return f"{search}, {'in sequence' if self.batch == 1 else 'batches'}"


@dataclass(frozen=True)
class Task:
    """The task of every process: the data, the number of threads, and the seconds of a block of training."""

    data: Data
    threads: int
    seconds: float


class Peer(Protocol):
    """A toolkit.

    ``trains`` names the models and precisions that it trains, and ``predicts`` its ways to predict. Each is a row of a
    table. ``install`` makes its environment, unless it exists. All methods raise PeerError.
    """

    @property
    def name(self) -> str: ...

    @property
    def trains(self) -> Sequence[tuple[Family, str]]: ...

    @property
    def predicts(self) -> Sequence[str]: ...

    def install(self) -> str:
        """Returns the version."""
        ...

    def train(self, task: Task, family: Family, precision: str) -> Speed: ...

    def predict(self, task: Task, way: str, columns: Sequence[Column]) -> dict[Column, Speed]: ...


@dataclass(frozen=True)
class Environment:
    """The virtual environment of one peer, in ``folder``. ``torch`` is the requirement that is installed first.

    ``requirements`` are installed with their dependencies. ``bare`` are installed without, because their pins would
    refuse this PyTorch.
    """

    folder: Path
    torch: str = TORCH
    requirements: tuple[str, ...] = ()
    bare: tuple[str, ...] = ()

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def install(self) -> None:
        """Raises PeerError with pip's last lines."""
        done = self.folder / "installed.json"
        asked = {"torch": self.torch, "requirements": self.requirements, "bare": self.bare}
        if done.exists() and json.loads(done.read_text()) == json.loads(json.dumps(asked)):
            return
        run([sys.executable, "-m", "venv", "--clear", str(self.folder)], 1)
        pip = [str(self.python), "-m", "pip", "install", "--quiet"]
        for arguments in ([self.torch], list(self.requirements), ["--no-deps", *self.bare] if self.bare else []):
            if arguments:
                run([*pip, *arguments], 1)
        done.write_text(json.dumps(asked))

    def version(self, package: str) -> str:
        code = f"from importlib.metadata import version; print(version({package!r}), 'torch', version('torch'))"
        return run([str(self.python), "-c", code], 1).lines[-1]


@dataclass
class Finished:
    """The lines that a process printed, and its largest memory in MiB. ``times`` has a second for each line."""

    lines: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    memory: float = 0.0

    @cached_property
    def answer(self) -> dict[str, Any]:
        """The last line, as JSON."""
        found: dict[str, Any] = json.loads(self.lines[-1])
        return found


def run(
    command: Sequence[str],
    threads: int,
    folder: Path | None = None,
    enough: Callable[[Finished], bool] = lambda _: False,
) -> Finished:
    """Runs the command in ``folder`` and returns its output. Kills it as soon as ``enough`` of the output is True.
    Raises PeerError with its last lines if it fails.
    """
    finished = Finished()
    with _started(command, threads, folder) as process:
        assert process.stdout is not None
        stopped = False
        for line in process.stdout:
            finished.lines.append(line.rstrip("\n"))
            finished.times.append(time.perf_counter())
            if not stopped and enough(finished):
                stopped = True
                process.kill()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        finished.memory = usage.ru_maxrss / 1024 / (1024 if sys.platform == "darwin" else 1)
    if process.returncode and not stopped:
        tail = "\n".join(finished.lines[-TAIL:])
        raise PeerError(f"{' '.join(map(str, command[:4]))} … ended with {process.returncode}:\n{tail}")
    return finished


@contextmanager
def _started(command: Sequence[str], threads: int, folder: Path | None) -> Iterator[subprocess.Popen[str]]:
    """A context with the process. Its standard error goes to its standard output. It is killed if it still runs."""
    own = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    own |= {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder, env=own
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def trained_by_log(command: Sequence[str], task: Task, pattern: re.Pattern[str], folder: Path) -> Speed:
    """The speed of a toolkit that prints its own reports until it is stopped.

    The first group of ``pattern`` is the target tokens a second since the last report. The first report is left out,
    because it includes the start.
    """

    def rates(finished: Finished) -> tuple[list[float], list[float]]:
        pairs = zip(finished.lines, finished.times, strict=True)
        found = [(float(match[1]), when) for line, when in pairs if (match := pattern.search(line))]
        return [rate for rate, _ in found], [when for _, when in found]

    def enough(finished: Finished) -> bool:
        if not pattern.search(finished.lines[-1]):
            return False
        _, times = rates(finished)
        return len(times) > 1 and times[-1] - times[0] >= task.seconds

    finished = run(command, task.threads, folder, enough)
    found, _ = rates(finished)
    if len(found) < 2:
        tail = "\n".join(finished.lines[-TAIL:])
        raise PeerError(f"no two reports of the speed in its output:\n{tail}")
    return Speed(median(found[1:]), finished.memory)


def program(python: Path, name: str, options: Mapping[str, Any], threads: int) -> Finished:
    """Runs one of ``programs`` with this interpreter. It gets ``options`` as JSON, and prints its answer as JSON."""
    return run(
        [str(python), "-m", f"peers.programs.{name}", json.dumps(dict(options), default=str)], threads, BENCHMARKS
    )
