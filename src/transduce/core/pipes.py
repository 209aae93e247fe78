"""A pipe or terminal as a file of bytes that knows whether a line has come."""

from __future__ import annotations

import os
import select

CHUNK = 1 << 16  # bytes of a read
MOST = 1 << 20  # bytes without the end of a line, after which ``ready`` waits no longer


class Pipe:
    """The bytes of the file descriptor ``number``. Like the buffered files of Python it has ``peek``, ``read`` and
    ``readline``.

    Python's own files cannot say whether a whole line is in their buffer.
    """

    def __init__(self, number: int) -> None:
        self._number, self._buffer, self._ended = number, bytearray(), False

    def ready(self, seconds: float) -> bool:
        """True if the next line, or the end, can be read without waiting. Waits for it until nothing has come for
        ``seconds``.
        """
        while not (self._ended or b"\n" in self._buffer or len(self._buffer) > MOST):
            try:
                came, _, _ = select.select([self._number], [], [], seconds)
            except OSError:  # Windows cannot ask pipes
                return True
            if not came:
                return False
            self._fill()
        return True

    def peek(self, size: int = 1) -> bytes:
        """The next bytes, which stay unread: at least one, but at the end; at most those that have come."""
        if not self._buffer:
            self._fill()
        return bytes(self._buffer)

    def read(self, size: int = -1) -> bytes:
        while (size < 0 or len(self._buffer) < size) and self._fill():
            pass
        return self._take(len(self._buffer) if size < 0 else size)

    def readline(self, limit: int = -1) -> bytes:
        """The next line with its "\\n", or its first ``limit`` bytes."""
        searched = 0
        while (end := self._buffer.find(b"\n", searched) + 1) == 0:
            searched = len(self._buffer)
            if 0 <= limit <= searched or not self._fill():
                end = searched
                break
        return self._take(end if limit < 0 else min(end, limit))

    def close(self) -> None:
        """Does nothing: the descriptor belongs to who opened it."""

    def _take(self, size: int) -> bytes:
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def _fill(self) -> bool:
        """Waits for more bytes. Returns False at the end."""
        came = b"" if self._ended else os.read(self._number, CHUNK)
        self._ended = not came
        self._buffer += came
        return bool(came)
