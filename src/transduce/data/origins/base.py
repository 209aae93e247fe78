"""What an origin is: it writes the splits of a corpus into a folder, each file whole or not at all, and only once."""

from __future__ import annotations

import glob
import hashlib
import importlib.metadata
import random
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Protocol

from transduce.data.corpora import DataError, Files, Splits

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
TRIES = 50  # for each text that has not been there yet
DAY = 24 * 60 * 60  # seconds


class Origin(Protocol):
    """Brings data: ``prepare`` returns the files of each split, written into ``folder`` where they are missing."""

    def prepare(self, folder: Path) -> Splits: ...


def hashed_split(key: str) -> Split:
    """The split of a key, the same everywhere and for ever: SHA-1 modulo 100, below 90, below 95, the rest."""
    hundredth = int(hashlib.sha1(key.encode(), usedforsecurity=False).hexdigest(), 16) % 100
    return "train" if hundredth < 90 else "valid" if hundredth < 95 else "test"


def tsv_splits(
    folder: Path, lines: Callable[[], Mapping[Split, Iterable[str]]], suffix: Literal["tsv", "txt"] = "tsv"
) -> Splits:
    """One TSV (or text) file for each split; ``lines`` is asked for theirs only where a file is missing."""
    paths = {split: folder / f"{split}.{suffix}" for split in SPLITS}
    if not all(path.exists() for path in paths.values()):
        for split, content in lines().items():
            write(paths[split], content)
    return Splits(*(Files(path=str(path)) for path in paths.values()))


def made_up(
    folder: Path,
    pairs: int,
    seed: int,
    source: Callable[[random.Random], str],
    line: Callable[[str, random.Random], str] | None = None,
) -> Splits:
    """TSV splits, a ``line`` for each of so many different drawn sources; it may draw by chance too. Without ``line``
    text files of the sources, which to a language model are targets.

    ``pairs`` are for training; a tenth of that, at least 100, for each of valid and test.
    """
    if pairs < 1:
        raise DataError(f"pairs = {pairs}: at least one is needed to learn from")

    def lines() -> dict[Split, list[str]]:
        draw = random.Random(seed)
        following = iter(different(pairs + 2 * held_out(pairs), "texts", lambda: source(draw)))
        sizes = zip(SPLITS, (pairs, held_out(pairs), held_out(pairs)), strict=True)
        taken = {split: list(islice(following, size)) for split, size in sizes}
        return taken if line is None else {split: [line(each, draw) for each in taken[split]] for split in SPLITS}

    return tsv_splits(folder, lines, "txt" if line is None else "tsv")


def different(count: int, what: str, draw: Callable[[], str]) -> list[str]:
    """So many drawn texts, no two alike, in the order in which they were met; DataError where there are hardly as
    many."""
    found: dict[str, None] = {}
    for _ in range(TRIES * count):
        found[draw()] = None
        if len(found) == count:
            return list(found)
    raise DataError(
        f"{count} different {what} were wanted, and {len(found)} found: ask for fewer, or let the options of "
        "data.origin allow more"
    )


def held_out(pairs: int) -> int:
    """How many pairs ``made_up`` draws for each of valid and test."""
    return max(100, pairs // 10)


def package(name: str, extra: str = "recipes") -> importlib.metadata.Distribution:
    """An installed package, whose files may be read without running code of it; DataError names the extra it is in."""
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        raise DataError(f"the package {name!r} is not installed: pip install 'transduce[{extra}]'") from None


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
        _settle(scratch, folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def named_by(facts: Any) -> str:
    """A folder's name, for what is made of these facts: of others it is another, as a file that was read may have
    changed since."""
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:12]


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


def _settle(scratch: Path, folder: Path) -> None:
    try:
        scratch.rename(folder)
    except OSError:
        if not folder.exists():  # else another process was first, with the same content
            raise
