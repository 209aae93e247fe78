"""Work that does not share the running batch: streams, alignments, completions and views, in a few threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from transduce.core.errors import BusyError, StoppedError

T = TypeVar("T")


class Desk:
    """Calls functions in ``threads`` threads. While all threads are busy, at most ``queue`` calls wait for one."""

    def __init__(self, threads: int, queue: int) -> None:
        self._threads, self._queue = threads, queue
        self._pool = ThreadPoolExecutor(threads, "transduce desk")
        self._lock = threading.Lock()
        self._busy, self._closed = 0, False

    async def call(self, function: Callable[[], T]) -> T:
        """Calls ``function`` in a thread, and returns its result or raises its error. Raises BusyError if the queue is
        full, and StoppedError after ``close``.
        """
        return await asyncio.wrap_future(self._submit(function))

    async def iterate(self, pieces: Iterator[T]) -> AsyncGenerator[T, None]:
        """Yields the items of ``pieces``. One thread computes them without waiting for the caller. If the caller stops,
        the thread stops after its current item. Raises the errors of ``pieces``, and BusyError and StoppedError like
        ``call``.
        """
        loop = asyncio.get_running_loop()
        found: asyncio.Queue[tuple[T] | None] = asyncio.Queue()  # None ends it
        stopped = threading.Event()

        def work() -> None:
            try:
                for piece in pieces:
                    if stopped.is_set():
                        return
                    loop.call_soon_threadsafe(found.put_nowait, (piece,))
            finally:
                loop.call_soon_threadsafe(found.put_nowait, None)

        future = self._submit(work)
        try:
            while (piece := await found.get()) is not None:
                yield piece[0]
            await asyncio.wrap_future(future)  # raises the error of the work
        finally:
            stopped.set()
            future.cancel()

    def close(self) -> None:
        """Finishes the calls that it has received. Later calls raise StoppedError."""
        with self._lock:
            self._closed = True
        self._pool.shutdown()

    def _submit(self, function: Callable[[], T]) -> Future[T]:
        with self._lock:
            if self._closed:
                raise StoppedError("the server stops: it takes no more requests")
            if self._busy >= self._threads + self._queue:
                raise BusyError(f"{self._busy} requests are in work already: try again later")
            self._busy += 1
        future = self._pool.submit(function)
        future.add_done_callback(self._done)
        return future

    def _done(self, _: object) -> None:
        with self._lock:
            self._busy -= 1
