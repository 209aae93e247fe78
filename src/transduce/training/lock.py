"""One process at a time in a directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from transduce.directory import LOCK
from transduce.errors import UserError


@contextmanager
def alone(folder: Path, what: str) -> Iterator[None]:
    """Keeps others that would do ``what`` out of the directory, which is made; a process that is killed holds nothing.

    Raises ValueError where another is at work. A directory that stays empty goes again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise UserError(
            f"{folder}: another {what} is at work there; wait until it ends, or choose another directory (--out)"
        ) from None
    try:
        yield
    finally:
        lock.release()
        if [path.name for path in folder.iterdir()] == [LOCK]:
            (folder / LOCK).unlink()
            folder.rmdir()
