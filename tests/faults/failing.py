"""Processes in which operations fail: ``failures.c`` is preloaded, and each command runs in a fork.

As a program, it reads one JSON object a line, runs it in a fork, and writes one JSON object a line.
"""

from __future__ import annotations

import ctypes
import importlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forks import NEEDED


@dataclass(frozen=True)
class Ended:
    """The exit status and the standard error of a command, and how many operations or allocations were counted."""

    status: int
    told: str
    counted: int


class Failing:
    """The other end of the program below."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def __call__(self, **asked: Any) -> Ended:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return Ended(**json.loads(self.process.stdout.readline()))


@contextmanager
def failing(folder: Path) -> Iterator[Failing]:
    """A process for commands that fail. ``folder`` gets the compiled library."""
    library = folder / "failures.so"
    source = Path(__file__).with_name("failures.c")
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler is not None
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-w", "-o", library, source, "-ldl"], check=True)
    environment = {**os.environ, "LD_PRELOAD": str(library), "COLUMNS": "200"}
    process = subprocess.Popen(
        [sys.executable, __file__], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield Failing(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _main() -> None:
    import torch

    for name in NEEDED:
        importlib.import_module(name)
    torch.set_num_threads(1)
    for line in sys.stdin:
        asked = json.loads(line)
        with tempfile.TemporaryFile("w+b") as told:
            reader, writer = os.pipe()
            if not (child := os.fork()):
                os.dup2(told.fileno(), 2)
                os.dup2(told.fileno(), 1)
                status = _predict(**asked) if "engine" in asked else _command(**asked)
                counted = ctypes.CDLL(None).operations_counted()
                os.write(writer, str(counted).encode())
                sys.stderr.flush()
                os._exit(status)
            os.close(writer)
            _, status = os.waitpid(child, 0)
            counted = int(os.read(reader, 20) or b"0")
            os.close(reader)
            told.seek(0)
            ended = Ended(os.waitstatus_to_exitcode(status), told.read().decode(errors="replace"), counted)
        print(json.dumps(vars(ended)), flush=True)


def _command(command: list[str], below: str, nth: int, error: int, forever: bool, stdin: str = "") -> int:
    """The exit status of a command whose n-th operation on files ``below`` a folder fails."""
    import transduce.cli.app as cli

    sys.argv = ["transduce", *command]
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()))
    ctypes.CDLL(None).fail_operation(below.encode(), nth, error, forever)
    try:
        cli.main()
    except SystemExit as exit:
        return int(exit.code or 0)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _predict(engine: str, texts: list[str], allocations: int) -> int:
    """Answers with an engine file, while each of the first ``allocations`` fails, and again after each failure. Writes
    a line for each answer that is wrong, and each error that does not tell of the memory. Returns their number.
    """
    import transduce_engine

    library, answer = ctypes.CDLL(None), transduce_engine.load(engine)
    expected = answer(texts)
    wrong = failed = 0
    for nth in range(1, allocations + 1):
        reason = ""
        library.fail_allocation(nth)
        try:
            found = answer(texts)
        except Exception as error:
            found, reason = expected, f"{type(error).__name__}: {error}"
        library.fail_allocation(0)
        failed += bool(reason)
        if found != expected or answer(texts) != expected or (reason and "emory" not in reason):
            wrong += 1
            print(nth, reason or "wrong output", file=sys.stderr)
    print(f"{failed} failed", file=sys.stderr)
    return min(wrong, 100)


if __name__ == "__main__":
    _main()
