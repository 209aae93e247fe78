"""Worker processes: each has its own copy of a model and its own threads, and takes the next batch.

Products of small matrices gain little from a second thread. Two processes have nearly twice the throughput of one.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from typing import Any, Generic, TypeVar

from transduce.compute.threads import check_number
from transduce.core.errors import StoppedError

AHEAD = 4  # batches per process that wait or are in work, so that no process waits for a slow batch
M = TypeVar("M")  # a model
B = TypeVar("B")
R = TypeVar("R")


class Workers(Generic[M]):
    """A pool of ``count`` processes. Each has the model that ``load`` returns and ``threads`` processor threads.

    A call takes ``work``, a function of a model and a batch, and the batches. It yields the results in the order of the
    batches, and reads at most ``AHEAD`` batches per process ahead of them. The processes start at the first call, which
    takes a few seconds, and stop with the program or with ``close``. An exception in a process, also in ``load``, is
    raised in the caller when the batch's turn comes. Raises StoppedError if a process dies, and UserError at
    construction if ``count`` or ``threads`` is less than 1, or far more than a machine has.
    """

    def __init__(self, load: Callable[[], M], count: int, threads: int = 1) -> None:
        self._ahead = AHEAD * check_number("workers", count)
        self._pool = ProcessPoolExecutor(
            count,
            multiprocessing.get_context("spawn"),  # a fork of a process with threads may never end
            initializer=_start,
            initargs=(load, check_number("threads", threads)),
        )

    def __call__(self, work: Callable[[M, B], R], batches: Iterable[B]) -> Iterator[R]:
        results: deque[Future[R]] = deque()
        try:
            for batch in batches:
                results.append(self._pool.submit(_call, work, batch))
                if len(results) > self._ahead:
                    yield results.popleft().result()
            while results:
                yield results.popleft().result()
        except BrokenProcessPool as error:
            raise StoppedError(
                "a worker process has died; if it ran out of memory, use fewer workers or smaller batches"
            ) from error
        finally:
            for result in results:
                result.cancel()

    def close(self) -> None:
        """Stops the processes, after the batches that they work on. The pool cannot be called afterwards."""
        self._pool.shutdown(cancel_futures=True)


# ------------------------------------------------------------- in a worker


def _start(load: Callable[[], object], threads: int) -> None:
    """Prepares a process. The first batch loads the model, so that its caller gets the exception if that fails."""
    global _own_model
    threading.Thread(target=_end_with_the_program, daemon=True).start()
    os.environ["OMP_NUM_THREADS"] = str(threads)
    import torch

    torch.set_num_threads(threads)
    _own_model = cache(load)


_own_model: Callable[[], Any]


def _end_with_the_program() -> None:
    """Waits in a thread of a worker until the program that started the worker ends, then exits. A killed program cannot
    stop its workers itself.
    """
    if program := multiprocessing.parent_process():
        multiprocessing.connection.wait([program.sentinel])
        os._exit(1)


def _call(work: Callable[[Any, B], R], batch: B) -> R:
    return work(_own_model(), batch)
