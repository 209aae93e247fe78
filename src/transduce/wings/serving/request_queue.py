"""Requests that arrive at any time, and the one thread that answers them: for servers and other concurrent callers."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from transduce.answers.answer import Answer
from transduce.answers.batches import check_batch_size
from transduce.answers.request import Request
from transduce.core.errors import BusyError, RequestError, StoppedError, UserError
from transduce.wings.serving.lanes import Lane, Turns, Waiting
from transduce.wings.serving.work import Finished, R, Work

Q = TypeVar("Q", bound="RequestQueue[Any]")
ALONE, BESIDE = 16, 3  # steps in a turn of a full batch, if no other lane is busy, and if one is
EXPRESS = 4  # sources with one output, or as much work in other requests, that a client may have in the express lanes


class RequestQueue(Generic[R]):
    """Answers requests in one thread. A second thread reads sources and makes answers meanwhile.

    A request that can share a running batch enters it at a step that has room, and leaves it when its search has
    finished. The others share short fixed batches. Each lane answers at most ``batch_size`` requests at a time, and at
    most ``queue`` requests wait.

    Requests with the same ``nbest`` share a lane. Clients with little work have lanes of their own, with a queue and
    three quarters of the time. So a client with much work delays a short request by no more than a step of a batch, and
    by a third of the time that its own search needs. In each lane, the clients take turns. ``clock`` returns seconds.

    It is a context manager; at its end it calls ``close``. Raises UserError for a ``batch_size`` that no batch has, or
    a ``queue`` below 1.
    """

    def __init__(
        self, work: Work[R], batch_size: int = 64, queue: int = 1024, clock: Callable[[], float] = time.monotonic
    ) -> None:
        check_batch_size(batch_size)
        if queue < 1:
            raise UserError(f"queue = {queue}: at least one request was expected")
        self._work, self._batch_size, self._queue, self._clock = work, batch_size, queue, clock
        self._lanes: dict[tuple[bool, bool, int | None], Lane[R]] = {}
        self._turns, self._work_of = Turns(), Counter[Hashable]()
        self._next_key = 0
        self._soonest = math.inf  # no request has an earlier deadline
        self._cancelled = False  # whether a request was, since the last look at all
        self._changed = threading.Condition()
        self._closed = False
        self._aside = Aside(work)
        self._thread = threading.Thread(target=self._answer_all, name="transduce scheduler", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many requests wait in the queue. Cancelled requests and those that are searched do not count."""
        with self._changed:
            return sum(not each.future.cancelled() for lane in self._lanes.values() for each in lane.waiting)

    @property
    def active(self) -> int:
        """How many requests are in running batches. Requests in fixed batches do not count."""
        return sum(len(lane.active) for lane in list(self._lanes.values()))

    def submit(self, request: Request, seconds: float | None = None, client: Hashable = None) -> Future[Answer]:
        """Returns the request's future answer at once.

        If it is not answered within ``seconds``, also while it is searched, the future raises TimeoutError; None is no
        limit. A cancelled future leaves the queue or the batch. A mistake in the request is raised by the future as
        RequestError. ``client`` is whoever asks: the clients share the time. Raises BusyError if the queue is full, and
        StoppedError after ``close``.
        """
        return self.submit_all([request], seconds, client)[0]

    def submit_all(
        self, requests: Sequence[Request], seconds: float | None = None, client: Hashable = None
    ) -> list[Future[Answer]]:
        """The same for several requests of one client. If the queue has no room for all, none is accepted."""
        deadline = None if seconds is None else self._clock() + seconds
        every = [Waiting[R](request, deadline, client) for request in requests]
        work = sum(self._work_in(request) for request in requests)
        with self._changed:
            if self._closed:
                raise StoppedError("the scheduler is closed: it takes no more requests")
            express = self._work_of[client] + work <= EXPRESS
            self._check_queue(express, len(requests))
            self._soonest = min(self._soonest, math.inf if deadline is None else deadline)
            lanes = [self._lane(express, request) for request in requests]
            for each, lane in zip(every, lanes, strict=True):
                if not lane.busy:
                    self._turns.join(lane, self._busy())
                lane.waiting.add(each)
                self._work_of[client] += self._work_in(each.request)
                each.future.add_done_callback(partial(self._answered, each))
            self._changed.notify()
        self._aside.read(every)
        return [each.future for each in every]

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
        self._aside.close()

    def __enter__(self: Q) -> Q:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------- lanes

    def _work_in(self, request: Request) -> int:
        """The work of a request, in sources with the outputs of the model's own search."""
        return -(-(request.nbest or 1) // self._work.size)

    def _check_queue(self, express: bool, count: int) -> None:
        """Raises BusyError if ``count`` more requests do not fit. Express lanes have a queue of their own, so that
        clients with much work do not fill it.
        """
        queues = [lane.waiting for lane in self._lanes.values() if lane.express == express]
        if sum(map(len, queues)) + count > self._queue:  # only then, because it looks at each request that waits
            for each in queues:
                each.forget(lambda waiting: waiting.future.cancelled())
        waiting = sum(map(len, queues))
        if waiting + count > self._queue:
            raise BusyError(f"{waiting} requests wait already (queue = {self._queue}): try again later")

    def _lane(self, express: bool, request: Request) -> Lane[R]:
        """The lane of a request. It is made when its first request comes."""
        batches = self._work.batches if self._work.batches and self._work.batches.shared_by(request) else None
        key = express, batches is None, None if batches is None else request.nbest
        if key not in self._lanes:
            batch = None if batches is None else batches.running_batch(request.nbest, self._batch_size)
            self._lanes[key] = Lane(express, key[2], batch)
        return self._lanes[key]

    def _busy(self) -> list[Lane[R]]:
        return [lane for lane in self._lanes.values() if lane.busy]

    def _answered(self, each: Waiting[R], future: Future[Answer]) -> None:
        with self._changed:
            self._cancelled = self._cancelled or future.cancelled()
            self._work_of[each.client] -= self._work_in(each.request)
            if not self._work_of[each.client]:
                del self._work_of[each.client]

    # ------------------------------------------------------------- the thread

    def _answer_all(self) -> None:
        while (lane := self._wait()) is not None:
            begun, clients = time.perf_counter(), lane.clients
            try:
                self._give_up()
                self._advance(lane)
            except Exception as error:  # a bug must not leave callers waiting for ever
                for each in lane.active.values():
                    _fail(each, error)
                lane.active = {}
                if self._work.batches and lane.batch is not None:
                    lane.batch = self._work.batches.running_batch(lane.nbest, self._batch_size)
            with self._changed:
                self._turns.charge(lane, time.perf_counter() - begun, clients)

    def _wait(self) -> Lane[R] | None:
        """Waits until there is something to do. Returns the lane whose turn it is; None if nothing is left and the
        scheduler is closed.
        """
        with self._changed:
            while not (busy := self._busy()) and not self._closed:
                self._changed.wait()
            return self._turns.next(busy) if busy else None

    def _give_up(self) -> None:
        """Drops requests that are late or were cancelled, in all lanes. A late request waits in vain even while a batch
        has no room for it.
        """
        with self._changed:
            if not self._cancelled and self._clock() < self._soonest:
                return  # each step comes here, so it must not look at each request
            self._cancelled = False
            for lane in self._lanes.values():
                lane.waiting.forget(self._is_over)
        for lane in list(self._lanes.values()):
            dropped = [key for key, each in lane.active.items() if self._is_over(each)]
            if dropped and lane.batch is not None:
                lane.batch.drop(dropped)
            for key in dropped:
                del lane.active[key]
        with self._changed:
            lanes = self._lanes.values()
            left = (each.deadline for lane in lanes for each in (*lane.waiting, *lane.active.values()))
            self._soonest = min((deadline for deadline in left if deadline is not None), default=math.inf)

    def _is_over(self, each: Waiting[R]) -> bool:
        """True if nobody waits for the answer any more. A late future gets its TimeoutError here."""
        if each.future.cancelled():
            return True
        if each.deadline is None or self._clock() < each.deadline:
            return False
        _fail(each, TimeoutError("the request was not answered before its deadline"))
        return True

    def _advance(self, lane: Lane[R]) -> None:
        """Lets waiting requests enter, and does a step of the lane's running batch, or answers a fixed batch."""
        entering = self._read(self._admitted(lane))
        if lane.batch is None:
            if entering:
                begun = time.perf_counter()
                self._answer_apart(entering)
                lane.fit(len(entering), time.perf_counter() - begun, self._batch_size)
            return
        if entering:
            self._enter(lane, entering)
        if lane.active:
            self._finish(lane, lane.batch.step(self._steps(lane)))

    def _steps(self, lane: Lane[R]) -> int:
        """The steps that a running batch may do in a turn. If requests wait for its room, it has none for others."""
        if not len(lane.waiting):
            return 1
        return ALONE if lane.express and len(self._busy()) == 1 else BESIDE

    def _admitted(self, lane: Lane[R]) -> list[Waiting[R]]:
        """The requests that enter the lane now."""
        admitted = list[Waiting[R]]()
        room = lane.room
        with self._changed:
            while len(admitted) < room and len(lane.waiting):
                each = lane.waiting.pop()
                if not self._is_over(each):
                    admitted.append(each)
        return admitted

    def _read(self, some: Sequence[Waiting[R]]) -> list[Waiting[R]]:
        """Reads the sources. Returns the requests whose source can be read; the futures of the others get the error."""
        read = []
        for each in some:
            try:
                if each.source is None:
                    each.source = self._work.read(each.request)
                read.append(each)
            except Exception as error:
                _fail(each, error)
        return read

    def _enter(self, lane: Lane[R], some: Sequence[Waiting[R]]) -> None:
        assert lane.batch is not None
        keys = range(self._next_key, self._next_key + len(some))
        try:
            finished = lane.batch.enter(keys, [each.request for each in some], _sources(some))
        except Exception as error:
            self._fail_alone(some, error, lambda alone: self._enter(lane, alone))
            return
        self._next_key = keys.stop
        lane.active |= dict(zip(keys, some, strict=True))
        self._finish(lane, finished)

    def _finish(self, lane: Lane[R], finished: Finished) -> None:
        for key, found in finished:
            each = lane.active.pop(key)
            if each.request.extras:  # the model gives them, for one thread at a time
                _answer_found(self._work, each, found)
            else:
                self._aside.answer(each, found)

    def _answer_apart(self, some: Sequence[Waiting[R]]) -> None:
        try:
            answers = self._work.answer([each.request for each in some], _sources(some), self._batch_size)
        except Exception as error:
            self._fail_alone(some, error, self._answer_apart)
            return
        for each, answer in zip(some, answers, strict=True):
            _succeed(each, answer)

    @staticmethod
    def _fail_alone(
        some: Sequence[Waiting[R]], error: Exception, again: Callable[[Sequence[Waiting[R]]], None]
    ) -> None:
        """Fails the only request, or tries each one by itself: the others are not to blame for a prefix too long."""
        if len(some) == 1:
            _fail(some[0], error)
            return
        for each in some:
            again([each])


def _sources(some: Sequence[Waiting[R]]) -> list[R]:
    """The sources of requests that were all read."""
    sources = [each.source for each in some if each.source is not None]
    assert len(sources) == len(some)
    return sources


class Aside(Generic[R]):
    """A thread that makes answers, and reads sources before they enter a batch, while the model computes."""

    def __init__(self, work: Work[R]) -> None:
        self._work = work
        self._found, self._unread = deque[tuple[Waiting[R], Any]](), deque[Waiting[R]]()
        self._signs = SimpleQueue[bool]()  # one for each that is in these; False ends the thread
        self._thread = threading.Thread(target=self._do_all, name="transduce reader", daemon=True)
        self._thread.start()

    def read(self, some: Sequence[Waiting[R]]) -> None:
        """Reads the sources, if they are small, so that many may wait. One that cannot be read stays unread."""
        if self._work.small:
            self._unread.extend(some)
            for _ in some:
                self._signs.put(True)

    def answer(self, each: Waiting[R], found: object) -> None:
        """Makes the answer to a request from what its search has found."""
        self._found.append((each, found))
        self._signs.put(True)

    def close(self) -> None:
        """Makes the answers that are asked for, then ends the thread."""
        self._signs.put(False)
        self._thread.join()

    def _do_all(self) -> None:
        while self._signs.get():
            if self._found:  # somebody waits for it
                _answer_found(self._work, *self._found.popleft())
                continue
            each = self._unread.popleft()
            with suppress(Exception):  # the scheduler reads it again, and tells the error
                each.source = self._work.read(each.request)


def _answer_found(work: Work[R], each: Waiting[R], found: Any) -> None:
    try:
        assert work.batches is not None
        assert each.source is not None
        _succeed(each, work.batches.answer_found(each.request, each.source, found))
    except Exception as error:  # such as extras that the model cannot give
        _fail(each, error)


def _succeed(each: Waiting[R], answer: Answer) -> None:
    if each.future.set_running_or_notify_cancel():
        each.future.set_result(answer)


def _fail(each: Waiting[R], error: BaseException) -> None:
    if isinstance(error, UserError) and not isinstance(error, RequestError):
        error = RequestError(str(error))
    if each.future.set_running_or_notify_cancel():
        each.future.set_exception(error)
