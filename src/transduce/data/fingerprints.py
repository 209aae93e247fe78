"""Fingerprints of data: what tells, without the data, that they have changed, and how.

A preparation takes them while it reads the rows to encode, so no file is read again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from transduce.core.config import Table
from transduce.data.rows import CorpusRow

DIGITS = 16  # of a SHA-256


@dataclass(frozen=True)
class Fingerprint:
    """The first 16 hex digits of the SHA-256 of lines of text, and the number of lines.

    ``files`` are the names of the files that hold them; empty if the lines come from no file.
    """

    sha256: str
    lines: int
    files: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The names of the files for people."""
        return " and ".join(self.files)


Fingerprints = Mapping[str, Sequence[Fingerprint]]
"""For each split that training reads, the fingerprint of each file. Parallel files have one together."""


class _Digest:
    """The digest of the lines of a file, or of several."""

    def __init__(self) -> None:
        self.sha256, self.lines = hashlib.sha256(), 0

    def closed(self, files: tuple[str, ...]) -> Fingerprint:
        return Fingerprint(self.sha256.hexdigest()[:DIGITS], self.lines, files)


def fingerprint(lines: Iterable[bytes], files: tuple[str, ...] = ()) -> Fingerprint:
    """The fingerprint of these lines."""
    digest = _Digest()
    for line in lines:
        digest.sha256.update(line + b"\n")
        digest.lines += 1
    return digest.closed(files)


class RowFingerprints:
    """Passes rows of a split on, and takes their fingerprints, one for each file that has rows. A line is a line of the
    file, a sentence of CoNLL or a row of Parquet, also if it has several targets.

    If the sources are ``signals``, the size of each recording or picture is a part of the fingerprint, and its folder
    is not.
    """

    def __init__(self, signals: bool = False) -> None:
        self.signals = signals
        self.found: list[Fingerprint] = []

    def __call__(self, rows: Iterable[CorpusRow]) -> Iterator[CorpusRow]:
        for _, of_file in groupby(rows, key=lambda row: id(row.files)):
            digest, last = _Digest(), 0
            for row in of_file:
                digest.lines, last = digest.lines + (row.number != last), row.number
                digest.sha256.update(self._text(row))
                yield row
            self.found.append(digest.closed(row.files.names if row.files else ()))

    def _text(self, row: CorpusRow) -> bytes:
        source = _with_size(row.source or "") if self.signals else row.source or ""
        return f"{source}\t{row.target or ''}\n".encode("utf-8", "surrogatepass")


Appended = Callable[[str, Fingerprint, Fingerprint], bool]


@dataclass(frozen=True)
class DataChange:
    """A change of the data, in words, and the ``splits`` that have changed."""

    text: str
    splits: frozenset[str]

    def __str__(self) -> str:
        return f"the data have changed since the checkpoint: {self.text}"


def changed(before: Fingerprints, now: Fingerprints, appended: Appended) -> DataChange | None:
    """The change of the data between two fingerprints; None if nothing has changed.

    ``appended(split, before, now)`` reads the beginning of a file again. It returns True if the file still begins with
    all that it had.
    """
    found = {
        split: [*_changes(split, before.get(split, ()), now.get(split, ()), appended)]
        for split in dict.fromkeys([*now, *before])
    }
    lines = [line for of_split in found.values() for line in of_split]
    if not lines:
        return None
    text = lines[0] + (f" (and {len(lines) - 1} more)" if len(lines) > 1 else "")
    return DataChange(text, frozenset(split for split, of_split in found.items() if of_split))


def _changes(
    split: str, before: Sequence[Fingerprint], now: Sequence[Fingerprint], appended: Appended
) -> Iterator[str]:
    if not before or not now:
        yield f"there is {'a' if now else 'no'} {split} split now, and there was {'one' if before else 'none'}"
        return
    for old, new in zip(before, now, strict=False):
        if (old.sha256, old.lines) == (new.sha256, new.lines):
            continue
        had = "had" if old.files == new.files else f"{old.name} had"
        lines = f"{split}: {new.name} has {new.lines:,} lines, and {had} {old.lines:,}"
        if new.lines > old.lines and appended(split, old, new):
            yield f"{lines}: {new.lines - old.lines:,} were appended"
        else:
            yield f"{lines}: the content is another"
    for extra in now[len(before) :]:
        yield f"{split}: {extra.name} with {extra.lines:,} lines is new"
    for gone in before[len(now) :]:
        yield f"{split}: {gone.name} with {gone.lines:,} lines is gone"


def as_json(found: Fingerprints) -> dict[str, object]:
    """The fingerprints as values for JSON; ``from_json`` is the inverse."""
    return {
        split: [{"files": list(each.files), "lines": each.lines, "sha256": each.sha256} for each in every]
        for split, every in found.items()
    }


def from_json(record: Table) -> Fingerprints:
    """Raises ValueError, KeyError, TypeError or AttributeError for a record that ``as_json`` did not make."""
    return {
        split: [Fingerprint(str(each["sha256"]), int(each["lines"]), tuple(each["files"])) for each in every]
        for split, every in record.items()
    }


def _with_size(path: str) -> str:
    """The name of a recording, picture or folder of pictures, with its size in bytes; -1 if it cannot be found."""
    try:
        inside = list(os.scandir(path)) if os.path.isdir(path) else []
        size = sum(each.stat().st_size for each in inside) if inside else os.stat(path).st_size
    except (OSError, ValueError):
        size = -1
    return f"{Path(path).name} {size}"
