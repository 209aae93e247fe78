"""Runs commands in parallel processes, each with a log file."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from transduce.training.interruption import Interruption, raise_again

UNBUFFERED = {"PYTHONUNBUFFERED": "1"}  # keeps the log in order, with the error at the end
GLANCE = 0.1  # seconds between polls


@dataclass(frozen=True)
class Task:
    """A command and the log file that its output is appended to."""

    name: str
    command: Sequence[str]
    log: Path


@dataclass(frozen=True)
class Ended:
    """A finished task: its exit status (0 is success, -N means killed by signal N) and its duration in seconds."""

    task: Task
    status: int
    seconds: float

    @property
    def reason(self) -> str:
        """Why a task failed: the signal that killed it, or the last line of its log that is not empty, or its exit
        status.
        """
        if self.status < 0:
            return f"killed by {signal.Signals(-self.status).name}"
        lines = self.task.log.read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), f"exit status {self.status}")


def run(
    tasks: Sequence[Task],
    jobs: int,
    environment: Mapping[str, str] | None = None,
    watch: Callable[[list[Task]], None] | None = None,
) -> Iterator[Ended]:
    """Runs all tasks, ``jobs`` at a time, and yields each when it ends, in the order in which they end. ``watch`` is
    called with the running tasks many times a second.

    The tasks have this process's environment and the variables in ``environment``. The first SIGINT, SIGTERM or SIGHUP,
    or an early end of the iteration, sends SIGTERM to the running tasks and waits for them. After a signal,
    KeyboardInterrupt or SystemExit follows. A second SIGINT kills the tasks.
    """
    waiting, running = list(tasks), list[tuple[Task, "subprocess.Popen[bytes]", float]]()
    with Interruption() as interruption:
        try:
            while waiting or running:
                raise_again(interruption.signal)
                while waiting and len(running) < jobs:
                    task = waiting.pop(0)
                    running.append((task, _start(task, environment), time.monotonic()))
                for entry in [entry for entry in running if entry[1].poll() is not None]:
                    running.remove(entry)
                    task, process, began = entry
                    _close(process)
                    yield Ended(task, process.returncode, time.monotonic() - began)
                if watch is not None:
                    watch([task for task, _, _ in running])
                time.sleep(GLANCE)
        finally:
            _stop([process for _, process, _ in running])


def _start(task: Task, environment: Mapping[str, str] | None) -> subprocess.Popen[bytes]:
    """Starts a task in its own session. Ctrl-C then reaches only this process, which passes it on once to the task. The
    task's standard input is a pipe that ends when this process ends (``end_with_parent``).
    """
    task.log.parent.mkdir(parents=True, exist_ok=True)
    with task.log.open("ab") as log:
        return subprocess.Popen(
            task.command,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **UNBUFFERED, **(environment or {})},
            start_new_session=True,
        )


def end_with_parent() -> None:
    """Lets this process, a task, end as by SIGTERM when the process that started it has ended, even if it was killed.
    Otherwise a training would go on without anybody who waits for it.
    """

    def watch() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Sends SIGTERM to the processes and waits for them. If the wait is interrupted, kills those that still run."""
    for process in processes:
        process.terminate()
    try:
        for process in processes:
            process.wait()
    finally:
        for process in processes:
            process.kill()  # no-op if it has ended
            _close(process)


def _close(process: subprocess.Popen[bytes]) -> None:
    """Closes the pipe to a task that has ended."""
    assert process.stdin is not None
    process.stdin.close()
