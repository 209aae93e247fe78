"""Several processes that work for one model: batches are dealt out to them, each has the model and its own threads.

Products of small matrices gain little from a second thread; two processes have nearly twice the throughput of one.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from typing import Any, Generic, TypeVar

from transduce.errors import StoppedError, UserError

M = TypeVar("M")  # a loaded model
B = TypeVar("B")
R = TypeVar("R")


class Crew(Generic[M]):
    """``workers`` processes, each with the model that ``load`` gives it and ``threads`` of the processor.

    Called with work, a function of such a model and a batch, and with batches, it gives the results in the batches'
    order. They start when they are first needed, which takes a few seconds, and stop with the program or ``close``.
    What is raised in a process, by ``load`` too, is raised here; RuntimeError, where one has died.
    """

    def __init__(self, load: Callable[[], M], workers: int, threads: int = 1) -> None:
        if workers < 1 or threads < 1:
            raise UserError(f"workers = {workers}, threads = {threads}: at least one of each was expected")
        self._pool = ProcessPoolExecutor(
            workers,
            multiprocessing.get_context("spawn"),  # a process forked from one with threads may wait for ever
            initializer=_settle,
            initargs=(load, threads),
        )

    def __call__(self, work: Callable[[M, B], R], batches: Iterable[B]) -> Iterator[R]:
        results = [self._pool.submit(_do, work, batch) for batch in batches]
        try:
            for result in results:
                yield result.result()
        except BrokenProcessPool as error:
            raise StoppedError(
                "a worker process has died; if it ran out of memory, use fewer workers or smaller batches"
            ) from error
        finally:
            for result in results:
                result.cancel()

    def close(self) -> None:
        """Stop the processes."""
        self._pool.shutdown(cancel_futures=True)


# ------------------------------------------------------------- in a worker


def _settle(load: Callable[[], Any], threads: int) -> None:
    """Before any work. The model is loaded with the first of it, whose caller then learns of what is wrong."""
    global _own
    threading.Thread(target=_end_with_the_program, daemon=True).start()
    os.environ["OMP_NUM_THREADS"] = str(threads)
    import torch

    torch.set_num_threads(threads)
    _own = cache(load)


_own: Callable[[], Any]  # its model


def _end_with_the_program() -> None:
    """A program that is killed tells its processes nothing: they watch it, and end when it has."""
    if program := multiprocessing.parent_process():
        multiprocessing.connection.wait([program.sentinel])
        os._exit(1)


def _do(work: Callable[[Any, B], R], batch: B) -> R:
    return work(_own(), batch)
