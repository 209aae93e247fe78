"""A file of answers that another process can continue after the process that wrote it was killed.

The answers are written to ``OUT.partial``, which becomes OUT when it is complete. An earlier OUT does not change until
then. A journal, ``OUT.progress``, is kept beside both. Its JSON lines are the settings, and then a mark after each
``every`` answers. A mark has hashes of the requests that were answered so far and of the bytes that were written so
far. A process that continues looks for the last mark that agrees with OUT.partial, and writes everything after it
again. So no other answers are lost, even if the machine stopped or OUT.partial was cut at any byte. The journal is
deleted when OUT is complete.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import IO

from filelock import FileLock, Timeout

from transduce.answers.answer import Answer
from transduce.answers.request import Request
from transduce.core.config import Table
from transduce.core.errors import UserError
from transduce.core.files import check_replaceable, ensure_folder, is_device, named_errors, replace_file

log = logging.getLogger("transduce")

SUFFIX, PARTIAL = ".progress", ".partial"
LOCK = ".lock"  # after the name of the journal
COMPANIONS = (PARTIAL, SUFFIX, SUFFIX + LOCK)
"""The suffixes of the files that stand beside an output file while it is written."""

VERSION = 2
Answering = Callable[[Iterator[Request], int], Iterator[Answer]]
Writing = Callable[[Answer], Iterable[str]]


@dataclass(frozen=True)
class Mark:
    """A place in an output file after a whole answer. ``answers`` and ``bytes`` are the numbers of answers and of bytes
    before it. ``requests`` and ``output`` are the SHA-256 of the answered requests and of these bytes, as hexadecimal
    digits.
    """

    answers: int
    requests: str
    bytes: int
    output: str


def write_answers(
    path: Path,
    requests: Iterable[Request],
    answer: Answering,
    write: Writing,
    settings: Mapping[str, object],
    every: int,
    resume: bool = False,
) -> None:
    """Writes the lines of each request's answer to the file ``path``, in UTF-8, in order. An earlier file is replaced
    when the new one is complete; so ``requests`` may come from it.

    ``answer`` takes the requests that are left and the number of the first of them, counted from 1. It yields their
    answers in order. ``write`` returns the lines of one answer. A mark is set after each ``every`` answers.

    If ``resume`` is True, the answers after the last mark that agrees with the partial file are dropped, and the work
    continues there. A missing file is begun. The result has the same bytes as a file that was written at once, if
    ``answer`` gives the same answers when it starts after a multiple of ``every`` requests. Work that fails before the
    first mark leaves no partial file. ``settings`` are values of JSON; a resumed file must have been begun with the
    same settings. A complete file has no journal and cannot be resumed.

    Missing folders are made. A device or a pipe has no partial file and no journal. Raises OSError if the file cannot
    be written. Raises UserError if another process writes the file, if a partial file is there and ``resume`` is False,
    or if a file of the user has the name of the partial file or of the journal. If ``resume`` is True, it also raises
    UserError if the settings or the answered requests have changed, if the bytes before the first mark were changed, or
    if the file is complete.
    """
    path = path.resolve() if path.is_symlink() else path
    if is_device(path):
        _write_to_device(path, answer(iter(requests), 1), write, resume)
        return
    check_replaceable(path)
    journal, partial = journal_of(path), partial_of(path)
    with named_errors(partial), _locked(path, journal, resume) as entries:
        start = _begin(path, entries, json.loads(json.dumps(settings)))
        marked = start.answers
        try:
            output = _Output(path, start, requests, entries)
            with output.file:
                for number, found in enumerate(answer(output.remaining, start.answers + 1), start.answers + 1):
                    output.add(found, write)
                    if number % every == 0:
                        output.mark(number)
                        marked = number
            replace_file(path, partial)
        except BaseException:
            if not marked:  # there is nothing to continue
                partial.unlink(missing_ok=True)
                journal.unlink()
            raise
        journal.unlink()


def journal_of(path: Path) -> Path:
    """The path of the journal of an output file: ``path`` with ``.progress`` at its end."""
    return path.with_name(path.name + SUFFIX)


def partial_of(path: Path) -> Path:
    """The path of an output file while it is not complete: ``path`` with ``.partial`` at its end."""
    return path.with_name(path.name + PARTIAL)


def _write_to_device(path: Path, answers: Iterable[Answer], write: Writing, resume: bool) -> None:
    if resume:
        raise UserError(f"{path} is a device or a pipe, which cannot be resumed: leave out --resume, or name a file")
    with named_errors(path), path.open("w", encoding="utf-8", newline="\n") as device:
        device.writelines(f"{line}\n" for found in answers for line in write(found))


class _Output:
    """The partial file of an output, open at the mark ``start`` and cut there, and the hashes so far.

    ``remaining`` are the requests that are not answered yet. Raises UserError if the requests before them differ from
    the requests of the mark.
    """

    def __init__(self, path: Path, start: Mark, requests: Iterable[Request], entries: IO[bytes]) -> None:
        self.entries = entries
        self.requests, self.output = hashlib.sha256(), hashlib.sha256()
        self.remaining = iter(requests)
        count = 0
        for request in islice(self.remaining, start.answers):
            count += 1
            self.requests.update(_content(request))
        if (count, self.requests.hexdigest()) != (start.answers, start.requests):
            what = f"has only {count} lines" if count < start.answers else "differs"
            raise UserError(
                f"{partial_of(path)} has answers to {start.answers} lines, and the beginning of this input {what}: "
                f"give the input with which it was begun, or delete it and {journal_of(path).name}"
            )
        self.file: IO[bytes] = partial_of(path).open("r+b" if start.bytes else "wb")
        for block in _blocks(self.file, start.bytes):
            self.output.update(block)
        self.file.truncate()
        self.bytes = start.bytes

    def add(self, answer: Answer, write: Writing) -> None:
        lines = b"".join(f"{line}\n".encode() for line in write(answer))
        self.file.write(lines)
        self.requests.update(_content(answer.request))
        self.output.update(lines)
        self.bytes += len(lines)

    def mark(self, answers: int) -> None:
        """Adds a mark to the journal, after the bytes that it describes are out of this process."""
        self.file.flush()
        mark = Mark(answers, self.requests.hexdigest(), self.bytes, self.output.hexdigest())
        _append(self.entries, asdict(mark))


def _check_state(path: Path, journal: Path, resume: bool) -> None:
    partial = partial_of(path)
    if partial.exists() and not journal.exists():
        raise UserError(f"{partial} has no {journal.name}, and {path.name} would be written there: move it elsewhere")
    if resume and path.exists() and not journal.exists():
        raise UserError(
            f"{path} has no {journal.name}: it is complete, or another program wrote it; there is nothing to resume"
        )
    if not resume and partial.exists():
        raise UserError(
            f"{partial} is not complete, as {journal.name} shows: add --resume to continue it, or delete both files"
        )


def _begin(path: Path, entries: IO[bytes], settings: Mapping[str, object]) -> Mark:
    """The mark to continue from. Removes later lines from the journal; begins a journal with the ``settings`` if there
    is nothing to continue.
    """
    lines = _whole_lines(entries)
    _check_journal(path, entries, lines)
    nothing = hashlib.sha256().hexdigest()
    start = Mark(0, nothing, 0, nothing)
    partial = partial_of(path)
    if not lines or not partial.exists():  # a kill before the first answer, or after the last
        entries.seek(0)
        entries.truncate()
        _append(entries, {"version": VERSION, "settings": settings})
        return start
    first, *marks = lines
    _check_settings(path, first[1], settings)
    end = first[0]
    fitting = 0
    with partial.open("rb") as file:
        size, digest = os.fstat(file.fileno()).st_size, hashlib.sha256()
        for place, record in marks:
            mark = Mark(**record)
            if mark.bytes > size:
                break
            fitting += 1
            for block in _blocks(file, mark.bytes - file.tell()):
                digest.update(block)
            if digest.hexdigest() != mark.output:
                break
            start, end = mark, place
    if fitting and not start.answers:
        raise UserError(
            f"{partial} does not begin as it was written: it was changed since; delete it and {journal_of(path).name}"
        )
    entries.seek(end)
    entries.truncate()
    if start.answers:
        log.warning("%s: continues after %d answers", path, start.answers)
    return start


def _check_journal(path: Path, entries: IO[bytes], lines: Sequence[tuple[int, Table]]) -> None:
    """Raises UserError if the file in the journal's place is no journal, or one of another version."""
    entries.seek(0)
    begun = b'{"version":'
    if not entries.read(len(begun)) == begun[: entries.tell()]:
        raise UserError(f"{journal_of(path)} is no journal of {path.name}, and one would be written there: move it")
    if lines and lines[0][1].get("version") != VERSION:
        raise UserError(f"{journal_of(path)} is of another version of transduce: delete it and {path.name}")


def _check_settings(path: Path, record: Table, settings: Mapping[str, object]) -> None:
    before = record["settings"]
    changed = [name for name in {**before, **settings} if before.get(name) != settings.get(name)]
    if changed:
        told = ", ".join(f"{name} = {before.get(name)!r}, now {settings.get(name)!r}" for name in changed)
        raise UserError(
            f"{partial_of(path)} was begun with other settings ({told}): repeat the command as it was, or delete it "
            f"and {journal_of(path).name}"
        )


def _whole_lines(entries: IO[bytes]) -> list[tuple[int, Table]]:
    """The records of a journal, each with the place of its end. A line that a kill has cut, and what follows it, is
    left out.
    """
    entries.seek(0)
    found, place = list[tuple[int, Table]](), 0
    for line in entries:
        place += len(line)
        try:
            record = json.loads(line) if line.endswith(b"\n") else None
        except ValueError:
            record = None
        if not isinstance(record, dict):
            break
        found.append((place, record))
    return found


def _append(entries: IO[bytes], record: Mapping[str, object]) -> None:
    entries.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
    entries.flush()


def _blocks(file: IO[bytes], count: int) -> Iterator[bytes]:
    """Yields the next ``count`` bytes of a file, in pieces."""
    while count and (block := file.read(min(count, 1 << 20))):
        count -= len(block)
        yield block


def _content(request: Request) -> bytes:
    """A request as bytes, for the hash. Its extras are left out: they are the same for a whole file."""
    asked = (request.source, request.prefix, request.constraints, request.nbest, request.target)
    return f"{asked!r}\n".encode(errors="backslashreplace")


@contextmanager
def _locked(path: Path, journal: Path, resume: bool) -> Iterator[IO[bytes]]:
    """The journal, open, while a lock file beside it is held. The operating system releases the lock of a process that
    is killed. Raises UserError as ``_check_state`` does.
    """
    lock = FileLock(journal.with_name(journal.name + LOCK))
    ensure_folder(journal.parent)
    if Path(lock.lock_file).is_file() and Path(lock.lock_file).stat().st_size:
        raise UserError(
            f"{lock.lock_file} is no lock of {journal.name}, and one would be made there: move it elsewhere"
        )
    Path(lock.lock_file).touch()  # an OSError tells why; FileLock would take it for a lock that another process holds
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise UserError(
            f"{journal.name} is in use: another process writes {journal.name.removesuffix(SUFFIX)}; wait until it "
            "ends, or choose another --out"
        ) from None
    try:
        _check_state(path, journal, resume)
        with journal.open("a+b") as entries:
            yield entries
    finally:
        Path(lock.lock_file).unlink(missing_ok=True)  # while it is held: a free lock file may become another's lock
        lock.release()
