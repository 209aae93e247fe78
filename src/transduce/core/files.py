"""Files and folders that are written whole or not at all, even if the process is killed.

The package has no other way to replace a file. Content is written under a scratch name beside its place, synced to
disk, and then renamed. A reader finds the earlier content or the new content, and never a part of either.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from transduce.core.errors import UserError

DAY = 24 * 60 * 60  # seconds
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # there is no space: on the disk, for this user, for this file
EARLIER = ".old"  # the suffix of a folder that is being replaced
SYNCS_AT_A_TIME = 32
SCRATCH = re.compile(r"\.(?P<name>.+)-[0-9a-f]{8}")


# --------------------------------------------------------------------- files


def write_file(path: Path, fill: Callable[[Path], None]) -> None:
    """Replaces ``path`` by a file that ``fill`` writes: ``fill`` is called with the path of a scratch file. Makes
    missing folders.

    A device or a pipe, such as /dev/stdout, gets the content and is not replaced. Raises OSError, which names ``path``,
    if the file cannot be written: a full disk, for example, or a file that is read-only.
    """
    with named_errors(path):
        if is_device(path):
            _pour(path, fill)
            return
        check_replaceable(path)
        scratch = _scratch(path)
        try:
            fill(scratch)
            replace_file(path, scratch)
        finally:
            scratch.unlink(missing_ok=True)


def replace_file(path: Path, scratch: Path) -> None:
    """Gives the complete file ``scratch`` the name ``path``, and the rights of the file that it replaces."""
    if path.exists():
        shutil.copymode(path, scratch)
    sync(scratch)
    scratch.replace(path)
    sync(path.parent)


def check_replaceable(path: Path) -> None:
    """Raises OSError, which names ``path``, if it is a folder, or a file that this user may not write.

    The operating system would rename another file over a file that is read-only.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def is_device(path: Path) -> bool:
    """True if ``path`` is a device, a pipe or a socket: it cannot be replaced by a file."""
    return path.exists() and not (path.is_file() or path.is_dir())


def _pour(path: Path, fill: Callable[[Path], None]) -> None:
    """Writes what ``fill`` writes to a device or a pipe."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder) / path.name
        fill(scratch)
        with scratch.open("rb") as content, path.open("wb") as device:
            shutil.copyfileobj(content, device)


def write_text(path: Path, text: str) -> None:
    """Replaces ``path`` by a UTF-8 file of ``text``."""
    write_file(path, lambda scratch: _put(scratch, [text]))


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Replaces ``path`` by a UTF-8 file of the lines, each of which gets a line end."""
    write_file(path, lambda scratch: _put(scratch, (f"{line}\n" for line in lines)))


def append_line(path: Path, line: str) -> None:
    """Adds a line to a log file, in UTF-8, without a sync to the disk. The folder must exist; the file need not.

    If the machine stops, the line may be lost or cut. A reader must skip a line that is cut.
    """
    with named_errors(path), path.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def _put(path: Path, texts: Iterable[str]) -> None:
    with path.open("x", encoding="utf-8", newline="\n") as file:
        file.writelines(texts)


# ------------------------------------------------------------------- folders


def ensure_folder(folder: Path) -> None:
    """Makes a missing ``folder`` and its missing parents, and waits until their names are on the disk.

    A sync of a file does not keep the name of its folder: without this, a loss of power may take the folder away.
    """
    if folder.is_dir():
        return
    ensure_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync(folder.parent)


def make_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Makes ``folder`` unless it exists. ``fill`` is called with the path of an empty folder, and writes the content
    there.

    Several processes may make the same folder at once. They must write the same content: the first one wins.
    """
    if folder.exists():
        return
    with _filled(folder, fill) as scratch:
        try:
            scratch.rename(folder)
        except OSError:
            if not folder.exists():
                raise
        sync(folder.parent)


def replace_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Replaces ``folder``. ``fill`` is called with the path of an empty folder, and writes the new content there.

    Only one process may do so at a time. A folder cannot be renamed over another one, so the earlier one is renamed
    first. A process that is killed between the two renames leaves the earlier folder under its other name: read
    ``current_folder(folder)``.
    """
    recover_folder(folder)
    earlier = _earlier(folder)
    with _filled(folder, fill) as scratch:
        if folder.exists():
            folder.rename(earlier)
        try:
            scratch.rename(folder)
        except OSError:
            if earlier.exists():
                earlier.rename(folder)
            raise
        sync(folder.parent)
        shutil.rmtree(earlier, ignore_errors=True)


def current_folder(folder: Path) -> Path:
    """The path to read instead of a ``folder`` that ``replace_folder`` writes.

    This is ``folder`` itself, unless a kill left only the earlier folder under its other name. Changes nothing, so that
    it is safe beside a process that writes, and in a folder that is read-only.
    """
    if folder.exists():
        return folder
    earlier = _earlier(folder)
    return earlier if earlier.exists() else folder


def recover_folder(folder: Path) -> None:
    """Cleans up after a ``replace_folder`` that was killed, and deletes its files and folders with scratch names. Call
    it only where no other process writes.
    """
    clear_scratch(folder)
    earlier = _earlier(folder)
    if earlier.exists() and not folder.exists():
        earlier.rename(folder)
    shutil.rmtree(earlier, ignore_errors=True)


@contextmanager
def _filled(folder: Path, fill: Callable[[Path], None]) -> Iterator[Path]:
    """A context with a scratch folder beside ``folder``, which ``fill`` has filled and which is synced to the disk. The
    scratch folder is deleted at the end, unless it was renamed.
    """
    with named_errors(folder):
        scratch = _scratch(folder)
        scratch.mkdir()
        try:
            fill(scratch)
            _sync_all(scratch)
            yield scratch
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _sync_all(folder: Path) -> None:
    """Waits until a folder with everything in it is on the disk.

    Many waits at a time are fast: the disk then writes thousands of small files together, and not one by one.
    """
    with ThreadPoolExecutor(SYNCS_AT_A_TIME) as pool:
        for _ in pool.map(sync, folder.rglob("*")):
            pass
    sync(folder)


def _earlier(folder: Path) -> Path:
    return folder.with_name(folder.name + EARLIER)


# ------------------------------------------------------------- scratch names


def scratch_of(name: str) -> str | None:
    """The name that a scratch name stands for, or None if ``name`` is no scratch name.

    Files and folders are written under a scratch name, ".NAME-" and eight hexadecimal digits, before they get the name
    NAME.
    """
    found = SCRATCH.fullmatch(name)
    return found["name"] if found else None


def clear_scratch(path: Path, older_than: float = 0.0) -> None:
    """Deletes the files and folders that killed processes left under scratch names of ``path``, beside it.

    Keeps those that changed in the last ``older_than`` seconds: another process may be writing them.
    """
    for left in path.parent.glob(f".{glob.escape(path.name)}-*"):
        with suppress(FileNotFoundError):  # another process was first
            if scratch_of(left.name) == path.name and time.time() - left.stat().st_mtime >= older_than:
                if left.is_dir():
                    shutil.rmtree(left, ignore_errors=True)
                else:
                    left.unlink()


def _scratch(path: Path) -> Path:
    """A name beside ``path`` that no other process has.

    Files of Python's module ``tempfile`` are readable by their owner only, and a cache may belong to a group.
    """
    ensure_folder(path.parent)
    clear_scratch(path, older_than=DAY)
    return path.with_name(f".{path.name}-{secrets.token_hex(4)}")


def sync(path: Path) -> None:
    """Waits until a file, or a folder's list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with named_errors(path):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """A context that adds ``path``, which is being written, to the errors of a full disk, to those of a damaged one
    that name no path, and to each OSError without a path.

    A copy that finds no space names its source. Libraries tell it in errors of their own (safetensors, tokenizers), or
    without its number (NumPy).
    """
    try:
        yield
    except Exception as error:
        number = error.errno if isinstance(error, OSError) else None
        if number is None:
            number = next((each for each in (*FULL, errno.EIO) if os.strerror(each) in str(error)), None)
        unnamed = getattr(error, "filename", None) is None
        if number in FULL or (unnamed and number is not None):
            raise OSError(number, os.strerror(number), str(path)) from error
        if unnamed and isinstance(error, OSError):
            raise OSError(f"{path} could not be written: {error}") from error
        raise


@contextmanager
def needs_writing(folder: Path, purpose: str, advice: str) -> Iterator[None]:
    """A context that raises UserError instead of the OSError of a folder that this user may not write. ``purpose`` says
    what the ``folder`` is for, and ``advice`` what to do.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        raise UserError(f"{folder} cannot be written ({error.strerror}), and {purpose}: {advice}") from error


# --------------------------------------------------------------------- names


def name_from(facts: object) -> str:
    """A folder's name for content that is made from ``facts``: 12 hexadecimal digits of a hash of ``repr(facts)``.

    The name changes when any of the facts changes.
    """
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:12]


def is_engine_file(path: Path) -> bool:
    """True for the name of a file that ``transduce export --to engine`` writes."""
    return path.suffix == ".engine" and not path.is_dir()
