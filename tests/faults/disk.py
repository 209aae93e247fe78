"""A disk that loses power: records what a command does to a folder, and enumerates what a crash may leave there.

POSIX promises little. Content is on the disk after an fsync of its file, and a name after an fsync of its folder.
Everything else may be lost, and each operation alone. ``recorded`` looks at a folder before each operation of a process
and keeps the differences. So it also sees the writes of compiled libraries. ``crashes`` gives the states that a loss
of power may leave: after every operation, and with every subset of the last ``WINDOW`` operations that are not synced.
"""

from __future__ import annotations

import itertools
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WINDOW = 8
ROOT = 0  # the serial number of the recorded folder
SCRATCH = re.compile(r"-[0-9a-f]{8}$")
MOMENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate"}

Name = tuple[int, str]  # the serial number of a folder, and a name in it
Tree = dict[str, bytes | None]  # the content of each file by its path; None is a folder


@dataclass(frozen=True)
class Entry:
    """A change of names: the file or folder ``node`` loses the name ``old``, gets the name ``new``, or both at once."""

    node: int
    old: Name | None
    new: Name | None
    is_folder: bool


@dataclass(frozen=True)
class Write:
    """New content of a file. A link's content is where it points to."""

    node: int
    content: bytes


@dataclass(frozen=True)
class Sync:
    """An fsync of a file, or of a folder's names."""

    node: int


@dataclass(frozen=True)
class Promise:
    """A moment at which the command told that something is saved."""

    text: str


Operation = Entry | Write | Sync | Promise


@dataclass
class Seen:
    """What a folder has at one moment, by serial numbers: names, and the content of files. ``stamps`` tell which files
    must be read again.
    """

    names: dict[Name, int] = field(default_factory=dict)
    contents: dict[int, bytes | None] = field(default_factory=dict)
    stamps: dict[int, tuple[int, ...]] = field(default_factory=dict)


class Tape:
    """The operations of a command on the folder ``root``, in order. ``before`` is what the folder had, all of it on the
    disk.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.operations = root.resolve(), list[Operation]()
        self._serials, self._next, self._lock = dict[int, int](), itertools.count(1), threading.RLock()
        self._seen = self.before = self._look()

    def promise(self, text: str) -> None:
        """Notes that the command has told ``text``: what is saved now must not be lost."""
        with self._lock:
            self.look()
            self.operations.append(Promise(text))

    def synced(self, descriptor: int) -> None:
        with self._lock:
            self.look()
            node = self._serials.get(os.fstat(descriptor).st_ino)
            if node is not None:
                self.operations.append(Sync(node))

    def look(self) -> None:
        """Adds what has changed since the last look."""
        with self._lock:
            earlier, now = self._seen, self._look()
            gone = {name: node for name, node in earlier.names.items() if now.names.get(name) != node}
            come = {name: node for name, node in now.names.items() if earlier.names.get(name) != node}
            left = {node: name for name, node in gone.items()}
            for new, node in come.items():
                old = left.pop(node, None)
                if old is None and new in gone:  # compiled code wrote it under another name, between two looks
                    old = (new[0], f".unseen-{node}")
                    self.operations.append(Entry(node, None, old, now.contents[node] is None))
                self.operations.append(Entry(node, old, new, now.contents[node] is None))
                gone.pop(old, None) if old else None
                gone.pop(new, None)  # another file had this name, and has lost it
            self.operations += [
                Entry(node, name, None, earlier.contents[node] is None) for name, node in reversed(gone.items())
            ]
            for node, content in now.contents.items():
                if content is not None and content != earlier.contents.get(node, b""):
                    self.operations.append(Write(node, content))
            self._seen = now

    def _look(self) -> Seen:
        for _ in range(1000):
            found = Seen()
            try:
                self._read(self.root, ROOT, found)
            except FileNotFoundError:  # compiled code in another thread renames or removes a file meanwhile: look again
                continue
            break
        else:
            raise AssertionError(f"{self.root} does not rest")
        kept = set(found.names.values())
        self._serials = {inode: node for inode, node in self._serials.items() if node in kept}
        self._serials[self.root.stat().st_ino] = ROOT
        return found

    def _read(self, folder: Path, serial: int, found: Seen) -> None:
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                stat = entry.stat(follow_symlinks=False)
                if stat.st_ino not in self._serials:
                    self._serials[stat.st_ino] = next(self._next)
                node = self._serials[stat.st_ino]
                found.names[serial, entry.name] = node
                if entry.is_dir(follow_symlinks=False):
                    found.contents[node] = None
                    self._read(Path(entry.path), node, found)
                    continue
                found.stamps[node] = (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
                seen = getattr(self, "_seen", None)
                if seen is not None and seen.stamps.get(node) == found.stamps[node]:
                    found.contents[node] = seen.contents[node]
                else:
                    found.contents[node] = Path(entry.path).read_bytes() if entry.is_file() else b""


_tape: Tape | None = None


def _moment(event: str, arguments: tuple[Any, ...]) -> None:
    tape = _tape
    if tape is None or event not in MOMENTS or tape._lock._is_owned():  # type: ignore[attr-defined]
        return
    if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)):
        return
    tape.look()


@contextmanager
def recorded(root: Path) -> Iterator[Tape]:
    """A context in which all operations of this process on the folder ``root`` are recorded."""
    global _tape
    if not getattr(recorded, "hooked", False):
        sys.addaudithook(_moment)  # Python cannot remove it
        recorded.hooked = True  # type: ignore[attr-defined]
    sync = os.fsync
    _tape = tape = Tape(root)

    def syncing(descriptor: Any) -> None:
        sync(descriptor)
        tape.synced(descriptor if isinstance(descriptor, int) else descriptor.fileno())

    os.fsync = syncing
    try:
        yield tape
        tape.look()
    finally:
        _tape, os.fsync = None, sync


# ------------------------------------------------------------------- crashes


@dataclass(frozen=True)
class Crash:
    """What a loss of power may leave in the folder: ``tree``, after the first ``after`` operations. ``promised`` is the
    last promise before it.
    """

    tree: Tree
    after: int
    promised: str | None

    @property
    def visible(self) -> Tree:
        """The tree without what has a scratch name or is a lock: no reader looks at it."""
        return {
            path: content
            for path, content in self.tree.items()
            if not path.endswith(".lock") and not any(SCRATCH.search(part) for part in path.split("/"))
        }

    def restore(self, folder: Path) -> Path:
        """Writes the state into the empty ``folder``, and returns it."""
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in self.tree.items():
            (folder / path).mkdir() if content is None else (folder / path).write_bytes(content)
        return folder


def crashes(tape: Tape, key: Callable[[Crash], Any] | None = None) -> list[Crash]:
    """The states that a loss of power may leave, each content once for each promise. States with the same ``key`` count
    as the same; by default, scratch names differ only by what they stand for.
    """
    found: dict[Any, Crash] = {}
    for crash in _every(tape):
        known = (crash.promised, frozenset(_canonical(crash.tree).items()) if key is None else key(crash))
        found.setdefault(known, crash)
    return list(found.values())


def _canonical(tree: Tree) -> Tree:
    return {"/".join(SCRATCH.sub("-scratch", part) for part in path.split("/")): tree[path] for path in tree}


def _every(tape: Tape) -> Iterator[Crash]:
    durable, pending = _Disk(tape.before), list[Entry | Write]()
    promised = None
    yield Crash(durable.tree(), 0, None)
    for after, operation in enumerate(tape.operations, 1):
        if isinstance(operation, Promise):
            promised = operation.text
        elif isinstance(operation, Sync):
            synced = _synced(operation, pending)
            pending = [each for each in pending if each not in synced]
            durable = durable.with_all(synced)
            continue
        else:
            if isinstance(operation, Write):  # a later write of a file has the earlier ones
                pending = [each for each in pending if not (isinstance(each, Write) and each.node == operation.node)]
            pending.append(operation)
        yield Crash(durable.tree(), after, promised)
        old, recent = pending[:-WINDOW], pending[-WINDOW:]
        base = durable.with_all(old)
        for kept in itertools.product((False, True), repeat=len(recent)):
            if not recent or isinstance(operation, Promise) or kept[-1]:  # without the last, it is an earlier state
                chosen = [each for each, keep in zip(recent, kept, strict=True) if keep]
                yield Crash(base.with_all(chosen).tree(), after, promised)
        if isinstance(operation, Write):  # the disk may have a part, or the size alone
            content, before = operation.content, durable.contents.get(operation.node) or b""
            kept = len(before) if content.startswith(before) else 0  # an append does not touch what is there
            half = kept + (len(content) - kept) // 2
            for torn in (content[:half], content[:kept] + bytes(len(content) - kept)):
                yield Crash(base.with_all([*recent[:-1], Write(operation.node, torn)]).tree(), after, promised)


def _synced(sync: Sync, pending: list[Entry | Write]) -> list[Entry | Write]:
    """The operations that an fsync brings to the disk. With the removal of a folder, these are the removals in it."""
    nodes = {sync.node}
    for each in reversed(pending):
        if isinstance(each, Entry) and each.is_folder and each.new is None and _place(each) in nodes:
            nodes.add(each.node)
    return [each for each in pending if _place(each) in nodes]


def _place(operation: Entry | Write) -> int:
    """The file or the folder that an fsync must name to keep the operation."""
    if isinstance(operation, Write):
        return operation.node
    place = operation.new or operation.old
    assert place is not None
    return place[0]


class _Disk:
    """Names and contents. An operation whose name is not as it was is lost too: a rename without its file."""

    def __init__(self, seen: Seen) -> None:
        self.names, self.contents = dict(seen.names), dict(seen.contents)

    def with_all(self, operations: list[Entry | Write]) -> _Disk:
        disk = _Disk(Seen(self.names, self.contents))
        for each in operations:
            disk._apply(each)
        return disk

    def _apply(self, operation: Entry | Write) -> None:
        if isinstance(operation, Write):
            self.contents[operation.node] = operation.content
            return
        node, old, new = operation.node, operation.old, operation.new
        if old is not None and self.names.get(old) != node:
            return
        if new is not None and old is None and new in self.names:
            return  # its place was never left
        if new is not None and new in self.names and self._has_names(self.names[new]):
            return
        if old is not None:
            if new is None and self._has_names(node):
                return  # a folder that is not empty stays
            del self.names[old]
        if new is not None:
            self.names[new] = node
            self.contents.setdefault(node, None if operation.is_folder else b"")

    def _has_names(self, node: int) -> bool:
        return any(folder == node for folder, _ in self.names)

    def tree(self) -> Tree:
        inside: dict[int, list[tuple[str, int]]] = {}
        for (folder, name), node in self.names.items():
            inside.setdefault(folder, []).append((name, node))
        found: Tree = {}

        def walk(folder: int, before: str) -> None:
            for name, node in inside.get(folder, ()):
                found[before + name] = content = self.contents[node]
                if content is None:
                    walk(node, f"{before}{name}/")

        walk(ROOT, "")
        return found
