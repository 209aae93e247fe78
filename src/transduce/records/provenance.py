"""Where a figure comes from: the command, the commit, the versions, and the lines of text behind it."""

from __future__ import annotations

import hashlib
import platform
import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import torch

import transduce
from transduce.data.corpora import Files, format_of, lines
from transduce.data.rows import read
from transduce.errors import UserError
from transduce.records.record import Change, Fingerprint, Versions
from transduce.types import Example

SOURCE = Path(__file__).resolve().parent
WITHOUT_CODE = (":(exclude,top)benchmarks/results", ":(exclude,top)docs")  # a new record does not change the code
NAMED = 3  # changed files that an error names at most
ABSOLUTE = re.compile(r"(?<![\w.~])/(?:[^/\s\"',+=\]}]+/)+")  # the folders of an absolute path


def versions() -> Versions:
    """The versions of Python, torch and transduce that this process uses."""
    return Versions(platform.python_version(), torch.__version__, transduce.__version__)


def today() -> str:
    """The local date of today as YYYY-MM-DD."""
    return date.today().isoformat()


def command_line(program: str, arguments: Sequence[str]) -> str:
    """The command as it was typed, quoted for a shell. Folders of absolute paths in its arguments are left out."""
    return shlex.join([program, *map(without_folders, arguments)])


def without_folders(value: Any) -> Any:
    """The value with each absolute path in its strings shortened to the path's last name, also inside dicts (not in
    their keys), lists and changes. Tuples become lists. A record is read on other machines.
    """
    if isinstance(value, str):
        return ABSOLUTE.sub("", value)
    if isinstance(value, dict):
        return {key: without_folders(item) for key, item in value.items()}
    if isinstance(value, Change):
        return Change(without_folders(value.recipe), without_folders(value.run))
    return [without_folders(item) for item in value] if isinstance(value, (list, tuple)) else value


@dataclass(frozen=True)
class Code:
    """The code that makes a figure: the short name of its ``commit``, and the files that differ from it. ``commit`` is
    None outside of a git checkout of the package.
    """

    commit: str | None = None
    changed: tuple[str, ...] = ()

    @property
    def clean(self) -> bool | None:
        return None if self.commit is None else not self.changed

    @classmethod
    def find(cls) -> Code:
        """The code of the package's source. Records and docs do not count as code."""
        name = _git("rev-parse", "--short=10", "HEAD")
        changed = _git("status", "--porcelain", "--", ":(top)", *WITHOUT_CODE)
        if name is None or changed is None or not _git("ls-files"):  # installed inside of another project's checkout
            return cls()
        return cls(name, tuple(line[2:].strip() for line in changed.splitlines()))


@cache
def code() -> Code:
    """The code as this process found it at the first call. A later commit or change is not the code that runs."""
    return Code.find()


def check_committed(uncommitted: bool = False) -> None:
    """Raises UserError if no commit has the code of this process, unless ``uncommitted`` allows such a record. Call it
    before anything is measured.
    """
    found = code()
    if uncommitted or found.clean:
        return
    ways = "or give --uncommitted too, which marks the record"
    if found.commit is None:
        raise UserError(f"--record: {SOURCE.parent} is no git checkout: no commit has this code; use a clone, {ways}")
    names = ", ".join(found.changed[:NAMED]) + (", …" if len(found.changed) > NAMED else "")
    raise UserError(f"--record: the code is not as commit {found.commit} has it ({names}); commit first, {ways}")


def fingerprint_of_files(files: Files) -> Fingerprint:
    """The fingerprint of the lines of a split's files, one file after the other. Raises DataError if one cannot be
    read.
    """
    names = tuple(path.name for path in files.paths)
    return _fingerprint((line for shard in files.shards for line in _lines(shard)), names)


def _lines(shard: Files) -> Iterator[bytes]:
    """The lines of a shard's files, one file after the other. A row of a Parquet file counts as a line."""
    if shard.path is not None and format_of(shard.path) == "parquet":
        return (repr((row.source, row.target)).encode() for row in read(shard))
    return chain.from_iterable(lines(path) for path in shard.paths)


def fingerprint_of_examples(examples: Iterable[Example]) -> Fingerprint:
    """The fingerprint of the sources and references of examples, in order, one line each. An absolute path in a source,
    such as a signal's, counts by its last name.
    """
    return _fingerprint("\t".join((without_folders(each.source), *each.references)).encode() for each in examples)


def _fingerprint(found: Iterable[bytes], files: tuple[str, ...] = ()) -> Fingerprint:
    digest, count = hashlib.sha256(), 0
    for line in found:
        digest.update(line + b"\n")
        count += 1
    return Fingerprint(digest.hexdigest()[:16], count, files)


def _git(*arguments: str) -> str | None:
    """Returns the output of git, or None if it fails or is not installed."""
    try:
        done = subprocess.run(["git", *arguments], cwd=SOURCE, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
