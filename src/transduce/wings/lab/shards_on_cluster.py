"""A folder of shards answered by a cluster: Dask distributed starts one command for each shard on its workers."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import transduce
from transduce.compute.cluster import RETRIES, connect
from transduce.core.errors import StoppedError, UserError


@dataclass(frozen=True)
class ShardJob:
    """The command that answers one shard: its arguments without the program's name, and the folder to run it in."""

    arguments: tuple[str, ...]
    folder: str
    version: str

    def __call__(self) -> str:
        """Runs the command in a process of its own, and returns the version of transduce. A worker calls it.

        Raises UserError if the worker has another version, because its outputs may differ, and StoppedError with the
        command's own message if it fails.
        """
        if transduce.__version__ != self.version:
            raise UserError(
                f"a worker has transduce {transduce.__version__}, and this program {self.version}: install the same"
            )
        run_command(self.arguments, self.folder)
        return self.version


def run_command(arguments: Sequence[str], folder: str) -> None:
    """Runs ``transduce ARGUMENTS`` in a folder. Raises StoppedError with the last lines of its messages if it fails."""
    command = [sys.executable, "-m", "transduce", *arguments]
    done = subprocess.run(command, cwd=folder, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        told = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise StoppedError(f"transduce {shlex.join(arguments)} failed on a worker:\n{told}")


class Cluster(Protocol):
    """What is needed of ``distributed.Client``."""

    def nthreads(self) -> Mapping[str, int]: ...

    def submit(self, function: Callable[..., object], *, key: str, pure: bool, retries: int) -> Any: ...


def answer_on(cluster: Cluster, arguments: Sequence[str], shards: Sequence[Path], out: Path) -> None:
    """Runs ``transduce ARGUMENTS --shard NAME`` on the workers for each shard that has no file in ``out`` yet.

    The folders must be the same for all workers. A shard whose worker dies is begun again by another worker. Returns
    when all shards are answered. Raises UserError if a worker runs several tasks at a time, and the error of a command
    that fails; commands that run already are finished.
    """
    crowded = [name for name, threads in cluster.nthreads().items() if threads > 1]
    if crowded:
        raise UserError(f"worker {crowded[0]} runs several tasks at a time: start it with --nthreads 1")
    waiting = [shard for shard in shards if not (out / shard.name).exists()]
    jobs = [ShardJob((*arguments, "--shard", shard.name), os.getcwd(), transduce.__version__) for shard in waiting]
    futures = [
        cluster.submit(job, key=f"{shard.name} of {out.resolve()}", pure=False, retries=RETRIES)
        for job, shard in zip(jobs, waiting, strict=True)
    ]
    try:
        for future in futures:
            future.result()
    finally:
        for future in futures:
            future.cancel()
    if missing := [shard.name for shard in shards if not (out / shard.name).exists()]:
        raise StoppedError(
            f"the workers answered {missing[0]}, but {out} has no such file: give a folder that all machines share"
        )


@contextmanager
def connected(address: str) -> Iterator[Cluster]:
    """A connection to the scheduler at this address, such as tcp://host:8786. Raises UserError if there is none."""
    client = connect(address)
    with client:
        yield cast(Cluster, client)


def without_option(arguments: Sequence[str], name: str) -> list[str]:
    """The arguments of a command without the option ``name`` and its value."""
    found, skip = [], False
    for argument in arguments:
        if skip or argument.startswith(f"{name}="):
            skip = False
        elif argument == name:
            skip = True
        else:
            found.append(argument)
    return found


def answer_shards(address: str, shards: Sequence[Path], out: Path) -> None:
    """Repeats this program's command for each shard, on the workers of the Dask scheduler at this address."""
    command = without_option(without_option(sys.argv[1:], "--cluster"), "--shard")
    with connected(address) as cluster:
        answer_on(cluster, command, shards, out)
