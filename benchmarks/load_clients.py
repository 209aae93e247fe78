"""Clients for benchmarks/serve_load.py: many connections to a server, each with one request at a time."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import numpy as np


@dataclass(frozen=True)
class Question:
    """A request to the server: its ``path`` and its body. ``right`` says whether an answer's body is right. ``kind``
    names it in tables.
    """

    kind: str
    path: str
    body: bytes
    right: Callable[[bytes], bool]
    sentences: int = 1


@dataclass
class Outcome:
    """The results of all clients: the seconds of each answered request by kind, and the count of each status.

    ``different`` counts the answers that were not right, and ``lost`` the requests without an answer.
    """

    seconds: dict[str, list[float]] = field(default_factory=dict)
    statuses: Counter[int] = field(default_factory=Counter)
    different: int = 0
    lost: int = 0
    sentences: int = 0
    wall: float = 0.0

    @property
    def speed(self) -> float:
        """Sentences a second."""
        return self.sentences / self.wall

    def add(self, other: Outcome) -> None:
        """Adds the results of another turn of the same clients."""
        for kind, seconds in other.seconds.items():
            self.seconds.setdefault(kind, []).extend(seconds)
        self.statuses += other.statuses
        self.different += other.different
        self.lost += other.lost
        self.sentences += other.sentences
        self.wall += other.wall

    def percentiles(self, kind: str | None = None) -> tuple[float, float, float]:
        """The median, the 95th and the 99th percentile of the seconds, of one kind or of all."""
        every = [each for name, some in self.seconds.items() if kind in (None, name) for each in some]
        found = np.percentile(every or [float("nan")], [50, 95, 99])
        return float(found[0]), float(found[1]), float(found[2])


class Connection:
    """A connection of HTTP/1.1 that stays open."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, address: str) -> Connection:
        parts = urlsplit(address)
        return cls(*await asyncio.open_connection(parts.hostname, parts.port))

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """The status and the body of the answer. Raises OSError or EOFError if the connection breaks."""
        fields = f"host: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        head = f"POST {path} HTTP/1.1\r\n{fields}\r\n\r\n"
        self.writer.write(head.encode() + body)
        head_lines = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        status = int(head_lines[9:12])
        if b"transfer-encoding: chunked" in head_lines:
            return status, b"".join([part async for part in self._chunks()])
        length = int(head_lines.partition(b"content-length:")[2].partition(b"\r\n")[0])
        return status, await self.reader.readexactly(length)

    async def _chunks(self) -> Any:
        while size := int(await self.reader.readline(), 16):
            yield (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readline()

    def close(self) -> None:
        self.writer.close()


async def load(
    address: str,
    questions: Iterator[Question],
    clients: int,
    going: Callable[[int], bool],
    each_time: Callable[[int], Awaitable[None]] | None = None,
) -> Outcome:
    """Asks the questions in turn with this many clients, while ``going`` is True for the count of requests so far. Then
    the clients finish the requests that have begun. ``each_time`` is called with the count after each request.
    """
    outcome, count = Outcome(), 0

    async def client() -> None:
        nonlocal count
        connection = await Connection.open(address)
        while going(count):
            count += 1
            question, begun = next(questions), time.perf_counter()
            try:
                status, body = await connection.post(question.path, question.body)
            except (OSError, EOFError):
                outcome.lost += 1
                connection = await Connection.open(address)
                continue
            outcome.statuses[status] += 1
            if status == 200:
                outcome.seconds.setdefault(question.kind, []).append(time.perf_counter() - begun)
                outcome.sentences += question.sentences
                outcome.different += not question.right(body)
            if each_time is not None:
                await each_time(count)
        connection.close()

    begun = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    outcome.wall = time.perf_counter() - begun
    return outcome


def question(kind: str, path: str, values: Any, right: Callable[[Any], bool], sentences: int = 1) -> Question:
    """A question whose body and answer are JSON. ``right`` gets the answer's values."""
    return Question(kind, path, json.dumps(values).encode(), lambda body: right(json.loads(body)), sentences)
