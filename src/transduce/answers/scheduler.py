"""Answers requests that arrive at any time, in one running batch: for servers and other concurrent callers."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import torch

from transduce.answers.answer import Answer
from transduce.answers.pipeline import Pipeline
from transduce.answers.request import Request
from transduce.answers.text_model import SourceRow
from transduce.errors import BusyError, RequestError, StoppedError, UserError
from transduce.protocols import Search, Searching, can
from transduce.search.base import Continuous, Finished
from transduce.search.continuous import ContinuousBatch


@dataclass(eq=False)
class _Waiting:
    """A request that is not answered yet. ``deadline`` is a time of the scheduler's clock; None is no deadline."""

    request: Request
    deadline: float | None
    future: Future[Answer] = field(default_factory=Future)
    source: SourceRow | None = None


class Scheduler:
    """Answers requests in the order of their arrival, in one thread, by continuous batching.

    A request enters the running batch at the next step that has room for it, and leaves it when its search has
    finished. Its answer is that of ``pipeline.answer``, up to rounding. ``search`` is the pipeline's own by default.
    At most ``batch_size`` requests are searched at a time and at most ``queue`` wait. Requests that cannot share the
    running batch (constraints, a given target, another ``nbest``, or a search or an engine without continuous batching)
    are answered in fixed batches of their own, between two steps. ``clock`` returns seconds.

    It is a context manager; at its end it calls ``close``. Raises UserError if ``batch_size`` or ``queue`` is less than
    1.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        search: Search[Any] | None = None,
        batch_size: int = 64,
        queue: int = 1024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if batch_size < 1 or queue < 1:
            raise UserError(f"batch_size = {batch_size}, queue = {queue}: at least one of each was expected")
        self._pipeline, self._search = pipeline, search or pipeline.search
        self._batch_size, self._queue, self._clock = batch_size, queue, clock
        self._batch = self._running_batch()
        self._active: dict[int, _Waiting] = {}
        self._next_key = 0
        self._waiting: deque[_Waiting] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="transduce scheduler", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many requests wait in the queue. Cancelled requests and those that are searched do not count."""
        with self._changed:
            return sum(not each.future.cancelled() for each in self._waiting)

    @property
    def active(self) -> int:
        """How many requests are in the running batch. Requests in fixed batches do not count."""
        return len(self._active)

    def submit(self, request: Request, seconds: float | None = None) -> Future[Answer]:
        """Returns the request's future answer at once.

        If it is not answered within ``seconds``, also while it is searched, the future raises TimeoutError; None is no
        limit. A cancelled future leaves the queue or the batch. A mistake in the request is raised by the future as
        RequestError. Raises BusyError if the queue is full, and StoppedError after ``close``.
        """
        waiting = _Waiting(request, None if seconds is None else self._clock() + seconds)
        with self._changed:
            if self._closed:
                raise StoppedError("the scheduler is closed: it takes no more requests")
            if len(self._waiting) >= self._queue:
                self._waiting = deque(each for each in self._waiting if not each.future.cancelled())
            if len(self._waiting) >= self._queue:
                raise BusyError(f"{len(self._waiting)} requests wait already (queue = {self._queue}): try again later")
            self._waiting.append(waiting)
            self._changed.notify()
        return waiting.future

    def answers(self, requests: Iterable[Request]) -> Iterator[Answer]:
        """Yields the answers in the order of the requests, of which at most ``queue`` are in work at a time."""
        futures = deque[Future[Answer]]()
        for request in requests:
            if len(futures) >= self._queue:
                yield futures.popleft().result()
            futures.append(self.submit(request))
        while futures:
            yield futures.popleft().result()

    def close(self) -> None:
        """Answers what has been submitted, then stops the thread. Later calls of ``submit`` are refused."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def __enter__(self) -> Scheduler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------- the thread

    def _running_batch(self) -> ContinuousBatch[Any] | None:
        """An empty batch; None if this search or this model has no continuous batching."""
        search: Any = self._search
        if can(type(self._pipeline.model), Searching) or not isinstance(search, Continuous) or not search.staggered:
            return None
        return ContinuousBatch(search, self._pipeline.model, self._batch_size)

    def _work(self) -> None:
        while self._wait():
            try:
                self._give_up()
                if self._batch is None or self._batch.has_room:
                    self._admit()
                if self._batch is not None and self._active:
                    with self._pipeline.computing():
                        self._finish(self._batch.step())
            except Exception as error:  # a bug must not leave callers waiting for ever
                for each in self._active.values():
                    _fail(each, error)
                self._active, self._batch = {}, self._running_batch()

    def _wait(self) -> bool:
        """Waits until there is something to do. False if nothing is left and the scheduler is closed."""
        with self._changed:
            while not self._waiting and not self._active and not self._closed:
                self._changed.wait()
            return bool(self._waiting or self._active)

    def _give_up(self) -> None:
        """Drops active requests that were cancelled or are late."""
        dropped = [key for key, each in self._active.items() if self._is_over(each)]
        if dropped and self._batch is not None:
            self._batch.drop(dropped)
        for key in dropped:
            del self._active[key]

    def _is_over(self, each: _Waiting) -> bool:
        """True if nobody waits for the answer any more. A late future gets its TimeoutError here."""
        if each.future.cancelled():
            return True
        if each.deadline is None or self._clock() < each.deadline:
            return False
        _fail(each, TimeoutError("the request was not answered before its deadline"))
        return True

    def _admit(self) -> None:
        """Takes waiting requests: those for the running batch as far as it has room, then one batch of others."""
        room = self._batch.free if self._batch is not None else 0
        entering, apart, left = list[_Waiting](), list[_Waiting](), list[_Waiting]()
        with self._changed:
            while self._waiting:
                each = self._waiting.popleft()
                if self._is_over(each):
                    continue
                some, most = (entering, room) if self._shares(each.request) else (apart, self._batch_size)
                (some if len(some) < most else left).append(each)
            self._waiting.extend(left)
        entering, apart = self._read(entering), self._read(apart)
        if entering:
            self._enter(entering)
        if apart:
            self._answer_apart(apart)

    def _shares(self, request: Request) -> bool:
        special = request.target is not None or request.constraints or request.nbest is not None
        return self._batch is not None and not special

    def _read(self, some: Sequence[_Waiting]) -> list[_Waiting]:
        """Reads the sources. Returns the requests whose source can be read; the futures of the others get the error."""
        read = []
        for each in some:
            try:
                (each.source,) = self._pipeline.read([each.request.source])
                read.append(each)
            except Exception as error:
                _fail(each, error)
        return read

    def _enter(self, some: Sequence[_Waiting]) -> None:
        assert self._batch is not None
        keys = range(self._next_key, self._next_key + len(some))
        try:
            prefixes = [self._pipeline.prefix_ids(each.request.prefix) for each in some]
            source = self._pipeline.padded([each.source.row for each in some if each.source is not None])
            prefix = self._pipeline.padded(prefixes, torch.long) if any(prefixes) else None
            with self._pipeline.computing():
                finished = self._batch.enter(source, keys, prefix)
        except Exception as error:
            self._fail_alone(some, error, self._enter)
            return
        self._next_key = keys.stop
        self._active |= dict(zip(keys, some, strict=True))
        self._finish(finished)

    def _finish(self, finished: Finished) -> None:
        for key, hypotheses in finished:
            each = self._active.pop(key)
            assert each.source is not None
            try:
                (answer,) = self._pipeline.answers_from([each.request], [each.source], [hypotheses])
                _succeed(each, answer)
            except Exception as error:  # such as extras that the model cannot give
                _fail(each, error)

    def _answer_apart(self, some: Sequence[_Waiting]) -> None:
        requests, sources = [each.request for each in some], [each.source for each in some if each.source is not None]
        try:
            answers = self._pipeline.answer_read(requests, sources, 1, self._search, self._batch_size)
        except Exception as error:
            self._fail_alone(some, error, self._answer_apart)
            return
        for each, answer in zip(some, answers, strict=True):
            _succeed(each, answer)

    @staticmethod
    def _fail_alone(some: Sequence[_Waiting], error: Exception, again: Callable[[Sequence[_Waiting]], None]) -> None:
        """Fails the only request, or tries each one by itself: the others are not to blame for a prefix too long."""
        if len(some) == 1:
            _fail(some[0], error)
            return
        for each in some:
            again([each])


def _succeed(each: _Waiting, answer: Answer) -> None:
    if each.future.set_running_or_notify_cancel():
        each.future.set_result(answer)


def _fail(each: _Waiting, error: BaseException) -> None:
    if isinstance(error, UserError) and not isinstance(error, RequestError):
        error = RequestError(str(error))
    if each.future.set_running_or_notify_cancel():
        each.future.set_exception(error)
