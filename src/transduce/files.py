"""Files and folders that are there whole or not at all, whatever stops the process that writes them."""

from __future__ import annotations

import glob
import hashlib
import secrets
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

DAY = 24 * 60 * 60  # seconds


def whole(folder: Path, fill: Callable[[Path], None]) -> None:
    """A folder filled where there is none yet: under another name first, so that one that is there is whole."""
    if folder.exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    _clear_leftovers(folder)
    scratch = _scratch(folder)
    scratch.mkdir()
    try:
        fill(scratch)
        _rename(scratch, folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def write(path: Path, lines: Iterable[str]) -> None:
    """Writes the lines; under another name first, so that a file that is there is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _clear_leftovers(path)
    scratch = _scratch(path)
    try:
        with scratch.open("x", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def _scratch(path: Path) -> Path:
    """Another name, nobody else's. Python's module tempfile would let the owner alone read what it makes, and a cache
    may be a group's."""
    return path.with_name(f".{path.name}-{secrets.token_hex(4)}")


def _clear_leftovers(path: Path) -> None:
    """Removes what was left under another name by a process that was killed, a day ago, lest it be at work still."""
    for left in path.parent.glob(f".{glob.escape(path.name)}-*"):
        with suppress(FileNotFoundError):  # another process was first
            if time.time() - left.stat().st_mtime <= DAY:
                continue
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink()


def _rename(scratch: Path, folder: Path) -> None:
    try:
        scratch.rename(folder)
    except OSError:
        if not folder.exists():  # else another process was first, with the same content
            raise


def named_by(facts: Any) -> str:
    """A folder's name, for what is made of these facts: of others it is another, as a file that was read may have
    changed since."""
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:12]
