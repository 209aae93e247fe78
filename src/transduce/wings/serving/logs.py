"""The log of a server: lines of text or of JSON on standard error, written by a thread of its own."""

from __future__ import annotations

import json
import logging
import queue
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from logging.handlers import QueueHandler, QueueListener
from typing import Any

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
WAITING = 10_000  # lines that may wait for a slow reader of the log
LOGGERS = ("transduce", "uvicorn")


class TextLines(logging.Formatter):
    """A line of text for each record: its time, its level and its message. A traceback follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{_time(record)} {record.levelname.lower()} {super().format(record)}"


class JsonLines(logging.Formatter):
    """An object of JSON for each record, on one line. A record of the access log has a key for each of its values."""

    def format(self, record: logging.LogRecord) -> str:
        values: dict[str, Any] = {"time": _time(record), "level": record.levelname.lower(), "logger": record.name}
        visit = getattr(record, "visit", None)
        values |= {"message": record.getMessage()} if visit is None else visit
        if record.exc_info:
            values["traceback"] = self.formatException(record.exc_info)
        return json.dumps(values)  # ASCII, so a client's text cannot change a terminal


class _Lines(QueueHandler):
    """Puts records into the queue. While it is full, records are lost and counted; the next line says how many."""

    lost = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return record  # the thread formats it, which takes no time of the server's loop

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            if self.lost:
                line = f"{self.lost} lines of the log are lost: its reader is too slow"
                self.queue.put_nowait(logging.makeLogRecord({"msg": line, "levelno": 30, "levelname": "WARNING"}))
                self.lost = 0
            self.queue.put_nowait(record)
        except queue.Full:
            self.lost += 1


class _Listener(QueueListener):
    def stop(self) -> None:
        """Writes the lines that wait, unless their reader takes more than two seconds."""
        with suppress(queue.Full):
            self.enqueue_sentinel()
        if self._thread is not None:
            self._thread.join(2)


@contextmanager
def logging_to_stderr(level: str, form: str) -> Iterator[None]:
    """A context in which the loggers of the package and of uvicorn write lines from ``level`` on to standard error, in
    the format ``form``. A reader of the log that stops does not stop the server.
    """
    lines: queue.Queue[Any] = queue.Queue(WAITING)
    handler, stream = _Lines(lines), logging.StreamHandler(sys.stderr)
    stream.setFormatter(JsonLines() if form == "json" else TextLines())
    listener = _Listener(lines, stream)
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(each, each.level, each.propagate, list(each.handlers)) for each in loggers]
    for each in loggers:
        each.setLevel(level.upper())
        each.handlers, each.propagate = [handler], False
    listener.start()
    try:
        yield
    finally:
        listener.stop()
        for each, old, propagate, handlers in before:
            each.setLevel(old)
            each.handlers, each.propagate = handlers, propagate


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03}Z"
