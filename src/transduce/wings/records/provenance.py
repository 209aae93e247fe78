"""Where a figure comes from: the command, the versions, and the lines of text behind it. Its code must be committed."""

from __future__ import annotations

import platform
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from itertools import chain
from typing import Any

import torch

import transduce
from transduce.core.errors import UserError
from transduce.core.types import Example
from transduce.data.corpora import Files, format_of, lines
from transduce.data.fingerprints import Fingerprint, fingerprint
from transduce.data.rows import read
from transduce.runs import code
from transduce.wings.records.record import Change, Versions

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


def without_folders(value: object) -> Any:
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


def check_committed(uncommitted: bool = False) -> None:
    """Raises UserError if no commit has the code of this process, unless ``uncommitted`` allows such a record. Call it
    before anything is measured.
    """
    found = code.code()
    if uncommitted or found.clean:
        return
    if found.commit is None:
        problem = f"{code.SOURCE.parent} is no git checkout: no commit has this code; use a clone"
    else:
        names = ", ".join(found.changed[:NAMED]) + (", …" if len(found.changed) > NAMED else "")
        problem = f"the code is not as commit {found.commit} has it ({names}); commit first"
    raise UserError(f"--record: {problem}, or give --uncommitted too, which marks the record")


def fingerprint_of_files(files: Files) -> Fingerprint:
    """The fingerprint of the lines of a split's files, one file after the other. Raises DataError if one cannot be
    read.
    """
    return fingerprint((line for shard in files.shards for line in _lines(shard)), files.names)


def _lines(shard: Files) -> Iterator[bytes]:
    """The lines of a shard's files, one file after the other. A row of a Parquet file counts as a line."""
    if shard.path is not None and format_of(shard.path) == "parquet":
        return (repr((row.source, row.target)).encode() for row in read(shard))
    return chain.from_iterable(lines(path) for path in shard.paths)


def fingerprint_of_examples(examples: Iterable[Example]) -> Fingerprint:
    """The fingerprint of the sources and references of examples, in order, one line each. An absolute path in a source,
    such as a signal's, counts by its last name.
    """
    return fingerprint("\t".join((without_folders(each.source), *each.references)).encode() for each in examples)
