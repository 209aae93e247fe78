"""Files that a server keeps for a short time, until their clients fetch them by a secret name."""

from __future__ import annotations

import re
import secrets
import time
from collections import OrderedDict
from pathlib import PurePosixPath

SECONDS = 600.0  # for which a file is kept
UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class KeptFiles:
    """Files in memory, of at most ``most`` bytes together. The oldest ones leave if a new one needs their room."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._files: OrderedDict[str, tuple[float, bytes]] = OrderedDict()

    def keep(self, name: str, content: bytes) -> str:
        """Keeps a file. Returns the name under which it is found: nobody can guess it, and it ends with ``name``."""
        self._forget(len(content))
        safe = UNSAFE.sub("_", PurePosixPath(name).name)[-60:]
        secret = f"{secrets.token_hex(16)}.{safe}"
        self._files[secret] = (time.monotonic() + SECONDS, content)
        return secret

    def find(self, name: str) -> bytes | None:
        """The content of a file; None if it is not kept, or not any more."""
        self._forget(0)
        return self._files.get(name, (0.0, None))[1]

    def _forget(self, more: int) -> None:
        """Removes files that are too old, and the oldest ones until ``more`` bytes have room."""
        now = time.monotonic()
        while self._files:
            end, _ = next(iter(self._files.values()))
            held = sum(len(content) for _, content in self._files.values())
            if end > now and held + more <= self._most:
                return
            self._files.popitem(last=False)
