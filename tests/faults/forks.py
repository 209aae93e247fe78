"""Commands as forks of a process that has imported PyTorch: each begins at once, and can be killed at any moment."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")  # of the clock in /proc/PID/stat, per second
KILLED = -9  # the status of a process that SIGKILL has ended
NEEDED = [  # what commands import: once, before the forks
    *("transduce.cli.app", "transduce.cli.predict", "transduce.cli.train", "transduce.api", "tokenizers"),
    *("transduce.wings.engines.export.checked_export", "transduce.wings.engines.sharing.packing"),
    *("transduce.wings.terminal.progress", "torch._dynamo", "torch.utils.tensorboard"),
]


class Ended(NamedTuple):
    """How a command ended: its status, the seconds of processor that it took, and its standard error."""

    status: int
    seconds: float
    told: str


class Commands:
    """Runs commands of ``transduce``. ``folder`` has a file for their standard error."""

    def __init__(self, folder: Path) -> None:
        self.told = folder / "told.txt"
        os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload([*NEEDED, "soaking"])

    def run(self, arguments: Sequence[str], kill_after: float | None = None) -> Ended:
        """Runs one command. SIGKILL ends it when it has had ``kill_after`` seconds of the processor."""
        process = self.context.Process(target=command, args=(list(arguments), str(self.told)))
        process.start()
        assert process.pid is not None
        seconds = 0.0
        while process.exitcode is None:
            seconds = _processor_seconds(process.pid) or seconds
            if kill_after is not None and seconds >= kill_after:
                process.kill()
                break
            time.sleep(0.001)
        process.join()
        assert process.exitcode is not None
        return Ended(process.exitcode, seconds, self.told.read_text(encoding="utf-8", errors="replace"))


def command(arguments: list[str], told: str) -> None:
    """The process of a command: ``python -m transduce``, but for its imports."""
    from transduce.cli.app import main

    with open(told, "wb") as errors, open(os.devnull, "r+b") as nothing:
        for descriptor, file in enumerate((nothing, nothing, errors)):
            os.dup2(file.fileno(), descriptor)
    sys.argv = ["transduce", *arguments]
    main()


def _processor_seconds(process: int) -> float:
    """The seconds of a process, of its children that have ended, and of those that run."""
    folder = Path(f"/proc/{process}")
    try:
        own = int((folder / "schedstat").read_text().split()[0]) / 1e9
        ended = (folder / "stat").read_text().rpartition(")")[2].split()[13:15]
        children = [child for path in folder.glob("task/*/children") for child in path.read_text().split()]
    except (OSError, IndexError):  # it has ended
        return 0.0
    return own + sum(map(int, ended)) / TICKS + sum(_processor_seconds(int(child)) for child in children)
