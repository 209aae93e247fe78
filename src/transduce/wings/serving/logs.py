"""The log of a server: lines of text or of JSON on standard error, written by a thread of its own."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TextIO

from transduce.wings.serving.visit import Visit

WAITING = 10_000  # lines that may wait for a slow reader of the log
SECONDS = 0.1  # between two times at which the thread writes what waits
LOGGERS = ("transduce", "uvicorn", "asyncio")


class TextLines(logging.Formatter):
    """A line of text for each record: its time, its level and its message. A traceback follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{_time(record)} {record.levelname.lower()} {super().format(record)}"


class JsonLines(logging.Formatter):
    """An object of JSON for each record, on one line. A record of the access log has a key for each of its values."""

    def format(self, record: logging.LogRecord) -> str:
        values: dict[str, object] = {"time": _time(record), "level": record.levelname.lower(), "logger": record.name}
        visit: Visit | None = getattr(record, "visit", None)
        values |= {"message": record.getMessage()} if visit is None else visit.values()
        if record.exc_info:
            values["traceback"] = self.formatException(record.exc_info)
        return json.dumps(values)  # ASCII, so a client's text cannot change a terminal


class Lines(logging.Handler):
    """Keeps records until a thread writes them to ``stream``, so that the server's loop never waits for a reader. If
    too many wait, further ones are lost, and the next line says how many.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream, self._waiting, self._lost = stream, deque[logging.LogRecord](), 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="transduce log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        if len(self._waiting) < WAITING:
            self._waiting.append(record)
        else:
            self._lost += 1

    def stop(self) -> None:
        """Writes the lines that wait, unless their reader takes more than two seconds."""
        self._stopped.set()
        self._thread.join(2)

    def _work(self) -> None:
        while not self._stopped.wait(SECONDS):
            self._write()
        self._write()

    def _write(self) -> None:
        lines = [self.format(self._waiting.popleft()) for _ in range(len(self._waiting))]
        if self._lost:
            told, self._lost = f"{self._lost} lines of the log are lost: its reader is too slow", 0
            values = {"msg": told, "levelno": logging.WARNING, "levelname": "WARNING"}
            lines.append(self.format(logging.makeLogRecord(values)))
        if lines:
            try:
                self._stream.write("\n".join([*lines, ""]))
                self._stream.flush()
            except OSError:  # the reader has gone, and the server has no other place to tell it
                return


@contextmanager
def logging_to_stderr(level: str, form: str) -> Iterator[None]:
    """A context in which the loggers of the package and of uvicorn write lines from ``level`` on to standard error, in
    the format ``form``: "text" or "json".
    """
    handler = Lines(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(each, each.level, each.propagate, list(each.handlers)) for each in loggers]
    for each in loggers:
        each.setLevel(level.upper())
        each.handlers, each.propagate = [handler], False
    try:
        yield
    finally:
        for each, old, propagate, handlers in before:
            each.setLevel(old)
            each.handlers, each.propagate = handlers, propagate
        handler.stop()


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03}Z"
