"""The lock of a directory: one process at a time may train, or sweep, in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from transduce.core.errors import UserError
from transduce.core.files import ensure_folder
from transduce.runs.layout import LOCK


@contextmanager
def locked(folder: Path, activity: str) -> Iterator[None]:
    """Makes the directory and holds its lock while the context is entered. The operating system releases the lock of a
    process that is killed.

    Raises UserError, which names the ``activity``, if the lock is held already. Deletes the directory at the end if it
    holds nothing but the lock.
    """
    ensure_folder(folder)
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise UserError(
            f"{folder}: another {activity} is at work there; wait until it ends, or choose another directory (--out)"
        ) from None
    try:
        yield
    finally:
        _delete_if_unused(folder)
        lock.release()


def wait_until_free(folder: Path, seconds: float = 120.0) -> None:
    """Waits until no process holds the directory's lock, but not longer than ``seconds``."""
    if (folder / LOCK).exists():
        with suppress(Timeout, FileNotFoundError), FileLock(folder / LOCK, timeout=seconds):
            pass


def _delete_if_unused(folder: Path) -> None:
    """Deletes the directory if it holds only the lock file. Call it while the lock is held: a lock file that is free
    may become another process's lock at any moment.
    """
    with suppress(OSError):  # renamed meanwhile, or another process has begun to write there
        if [path.name for path in folder.iterdir()] == [LOCK]:
            (folder / LOCK).unlink()
            folder.rmdir()
