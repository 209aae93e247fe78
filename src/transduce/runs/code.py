"""The code that trains and measures: its commit, and what differs from it."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]  # the package
WITHOUT_CODE = (":(exclude,top)benchmarks/results", ":(exclude,top)docs")  # a new record does not change the code


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


def _git(*arguments: str) -> str | None:
    """Returns the output of git, or None if it fails or is not installed."""
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", *arguments], cwd=SOURCE, capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
