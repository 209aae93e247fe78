"""A folder of answers that several processes, on one machine or many, write together: a file for each shard."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from filelock import FileLock, Timeout

from transduce.core.errors import UserError
from transduce.core.files import make_folder, write_lines, write_text
from transduce.core.text_files import read_text

CLAIMS = ".claims"  # in the folder of outputs: the settings, and a lock file for each shard
SETTINGS = "settings.json"
PAUSE = 1.0  # seconds between two looks at the shards that other processes answer


def write_shards(
    shards: Sequence[Path], out: Path, answer: Callable[[Path], Iterable[str]], settings: Mapping[str, object]
) -> None:
    """Writes the lines ``answer(shard)`` of each shard to a file of the same name in the folder ``out``, in UTF-8.

    Other processes may do the same at the same time, if their file system has locks that all of them see. Each shard
    is locked by the process that answers it, and others leave it out. The operating system releases the lock of a
    process that is killed, and another process then answers the shard. A file appears in ``out`` only when it is
    complete. A shard that has a file there is not answered again. Returns when all shards have one.

    Raises UserError if ``out`` was begun with other ``settings``, which are values of JSON, or if it has a file of a
    shard's name from elsewhere.
    """
    text = json.dumps(settings, indent=1, sort_keys=True)
    there = [shard.name for shard in shards if (out / shard.name).exists()]
    if there and not (out / CLAIMS).exists():
        raise UserError(
            f"{out} has {there[0]} already, which no such command has written: move it elsewhere, or choose another "
            "folder"
        )
    make_folder(out / CLAIMS, lambda scratch: write_text(scratch / SETTINGS, text))
    if read_text(out / CLAIMS / SETTINGS) != text:
        raise UserError(
            f"{out} was begun with another run or other options, as {out / CLAIMS / SETTINGS} shows: repeat the "
            "command as it was, or choose another folder"
        )
    while waiting := [shard for shard in shards if not (out / shard.name).exists()]:
        if not any(_answered(shard, out, answer) for shard in waiting):
            time.sleep(PAUSE)


def _answered(shard: Path, out: Path, answer: Callable[[Path], Iterable[str]]) -> bool:
    """Answers the shard, and returns True; returns False if another process answers it."""
    lock = FileLock(out / CLAIMS / f"{shard.name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return False
    try:
        if not (out / shard.name).exists():
            write_lines(out / shard.name, answer(shard))
        return True
    finally:
        lock.release()
