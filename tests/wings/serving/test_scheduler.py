"""Requests that arrive at any time get the answers that they get alone; none waits for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import transduce
from transduce import Constraints, Extras, Request, Transducer
from transduce.core.errors import BusyError, RequestError, StoppedError, UserError
from transduce.search.exact import Exact
from transduce.search.greedy import Greedy
from transduce.wings.serving.lanes import TURN, FairQueue, Lane, Turns, Waiting
from transduce.wings.serving.request_queue import ALONE, BESIDE, RequestQueue
from transduce.wings.serving.scheduler import Scheduler

PATIENCE = 60  # seconds, for a machine that is busy
REQUESTS = [
    *map(Request, ["abc", "", "zé", "cab", "b" * 5, "ab", "ba"]),
    Request("abc", prefix="b"),
    Request("ab", constraints=Constraints(required=["c"])),
    Request("cab", nbest=2),
    Request("ab", target="ba"),
    Request("cba", extras=Extras(alignments=True)),
    Request("bca", prefix="cc"),
]


class Gate:
    """A model that waits before each step until the gate is open, and fails if it is told to."""

    def __init__(self, model: Any) -> None:
        self.model, self.training = model, False
        self.start, self.readout, self.parameters = model.start, model.readout, model.parameters
        self.open, self.asked, self.broken = threading.Event(), threading.Event(), False

    def extend(self, tokens_BT: Any, state: Any) -> Any:
        self.asked.set()
        assert self.open.wait(PATIENCE)
        if self.broken:
            raise ZeroDivisionError("a bug")
        return self.model.extend(tokens_BT, state)


@pytest.fixture(scope="module")
def alone(trained: Path) -> Transducer:
    return transduce.load(trained, device="cpu")


@pytest.fixture
def gate(alone: Transducer) -> Iterator[Gate]:
    gate = Gate(alone.model)
    yield gate
    gate.open.set()


@pytest.mark.parametrize("search", [None, Greedy(6), Exact(max_length=4)], ids=["beam", "greedy", "exact"])
@pytest.mark.parametrize("size", [1, 3, 64])
def test_requests_in_company_are_answered_as_alone(alone: Transducer, search: Any, size: int) -> None:
    asked = [each for each in REQUESTS if not each.constraints or search is None]
    with Scheduler(alone, search, size, queue=5) as scheduler:
        found = list(scheduler.answers(asked))
    assert [answer.request for answer in found] == asked
    for answer, request in zip(found, asked, strict=True):
        (expected,) = alone.answer([request], search)
        assert [output.text for output in answer.outputs] == [output.text for output in expected.outputs]
        assert [output.alignment for output in answer.outputs] == [output.alignment for output in expected.outputs]
        assert answer.best.log_prob == pytest.approx(expected.best.log_prob, abs=1e-4)


def test_requests_enter_a_batch_that_runs(alone: Transducer, gate: Gate) -> None:
    """The second request is answered by steps that the first one's search takes."""
    with Scheduler(replace(alone, model=gate), Greedy(6)) as scheduler:  # type: ignore[arg-type]
        first = scheduler.submit(Request("abc"))
        assert gate.asked.wait(PATIENCE)
        second = scheduler.submit(Request("cab"))
        gate.open.set()
        assert first.result(PATIENCE).best.text == next(alone.predict(["abc"], Greedy(6)))[0].text
        assert second.result(PATIENCE).best.text == next(alone.predict(["cab"], Greedy(6)))[0].text


def test_a_late_request_is_given_up(alone: Transducer, gate: Gate) -> None:
    now = [0.0]
    with Scheduler(replace(alone, model=gate), Greedy(6), 2, clock=lambda: now[0]) as scheduler:  # type: ignore[arg-type]
        searched = scheduler.submit(Request("abc"), seconds=1)
        assert gate.asked.wait(PATIENCE)
        waiting, patient = scheduler.submit(Request("ab"), seconds=1), scheduler.submit(Request("cab"), seconds=9)
        now[0] = 2.0
        gate.open.set()
        for late in (searched, waiting):
            with pytest.raises(TimeoutError, match="was not answered before its deadline"):
                late.result(PATIENCE)
        assert patient.result(PATIENCE).request.source == "cab"


class Endless:
    """A running batch, and the work and the batches around it, whose searches end only when they are dropped."""

    size = free = has_room = small = 1

    def __init__(self) -> None:
        self.batches, self.dropped, self.left = self, list[str](), threading.Event()
        self.sources, self.broken, self.most = dict[int, str](), False, 0

    def read(self, request: Request) -> str:
        return str(request.source)

    def shared_by(self, request: Request) -> bool:
        return True

    def running_batch(self, nbest: int | None, batch_size: int) -> Endless:
        return self

    def enter(self, keys: Any, requests: Any, sources: Any) -> tuple[()]:
        self.sources |= dict(zip(keys, sources, strict=True))
        return ()

    def step(self, most: int) -> tuple[()]:
        time.sleep(0.001)
        self.most = most
        if self.broken:
            raise ZeroDivisionError("a bug")
        return ()

    def drop(self, keys: Any) -> None:
        self.dropped += map(self.sources.pop, keys)
        self.left.set()


def test_a_full_batch_does_several_steps_in_a_turn_and_fewer_beside_others() -> None:
    work = Endless()
    held: Any = work

    def becomes(most: int) -> None:
        end = time.monotonic() + PATIENCE
        while work.most != most and time.monotonic() < end:
            time.sleep(0.001)
        assert work.most == most

    with RequestQueue[str](held) as queue:
        futures = [queue.submit(Request("a"))]
        becomes(1)
        work.free = 0
        futures.append(queue.submit(Request("b")))
        becomes(ALONE)
        futures.append(queue.submit(Request("c", nbest=2)))
        becomes(BESIDE)
        for each in futures:
            each.cancel()


def test_requests_that_nobody_waits_for_leave_the_running_batch() -> None:
    """A cancelled one at the next step, and a late one; then the next late one."""
    work, now = Endless(), [0.0]
    held: Any = work
    with RequestQueue[str](held, clock=lambda: now[0]) as queue:
        late, last, gone = (queue.submit(Request(name), seconds) for name, seconds in (("a", 5), ("b", 9), ("c", None)))
        try:
            while len(work.sources) < 3:
                time.sleep(0.001)
            assert gone.cancel()
            assert work.left.wait(PATIENCE)
            assert (work.dropped, late.done(), last.done()) == (["c"], False, False)
            for future in (late, last):
                assert not last.done()
                now[0] += 5.5
                with pytest.raises(TimeoutError, match="not answered before its deadline"):
                    future.result(PATIENCE)
        finally:
            work.broken = True  # or the queue would not close
    assert work.dropped == ["c", "a", "b"]


def test_a_full_queue_and_a_cancelled_request(alone: Transducer, gate: Gate) -> None:
    with Scheduler(replace(alone, model=gate), Greedy(6), 1, queue=2) as scheduler:  # type: ignore[arg-type]
        scheduler.submit(Request("abc"))
        assert gate.asked.wait(PATIENCE)
        cancelled, kept = scheduler.submit(Request("ab")), scheduler.submit(Request("cab"))
        with pytest.raises(BusyError, match=r"2 requests wait already \(queue = 2\): try again later"):
            scheduler.submit(Request("b"))
        assert cancelled.cancel()
        gate.open.set()
        assert kept.result(PATIENCE).request.source == "cab"


def test_a_client_with_much_work_delays_nobody(alone: Transducer, gate: Gate) -> None:
    """The short request of another client is answered before most of the work that came before it, and its queue has
    room while the other queue is full.
    """
    done: list[str] = []
    held: Any = replace(alone, model=gate)
    many = [Request("abcab", nbest=50)] * 4 + [Request("abcab")] * 6 + [Request("abcab", target="ab")] * 4
    with Scheduler(held, batch_size=2, queue=len(many)) as scheduler:
        scheduler.submit(Request("a"), client="first")
        assert gate.asked.wait(PATIENCE)
        for future in scheduler.submit_all(many, client="greedy"):
            future.add_done_callback(lambda _: done.append("greedy"))
        with pytest.raises(BusyError, match="wait already"):
            scheduler.submit_all([Request("b")] * 9, client="greedy, too")
        short = scheduler.submit(Request("ab"), client="short")
        short.add_done_callback(lambda _: done.append("short"))
        gate.open.set()
        assert short.result(PATIENCE).request.source == "ab"
    assert len(done) == len(many) + 1
    assert done.index("short") < 8


def test_clients_take_turns() -> None:
    queue = FairQueue()
    for client in "a" * (2 * TURN) + "b" * 3 + "c":
        queue.add(Waiting(Request(client), None, client))
    assert "".join(queue.pop().request.source for _ in range(len(queue))) == "a" * TURN + "bbbc" + "a" * TURN


def test_time_is_shared_between_express_and_other_lanes() -> None:
    express, one, other = Lane(True, None, None), Lane(False, None, None), Lane(False, 50, None)
    turns, used = Turns(), {express: 0, one: 0, other: 0}
    busy: list[Lane] = []
    for lane in used:
        lane.seconds = 7.0 * (lane is other)  # it has worked before
        turns.join(lane, busy)
        busy.append(lane)
    for _ in range(160):
        lane = turns.next(busy)
        used[lane] += 1
        turns.charge(lane, 1.0, clients=4 if lane is one else 1)
    assert used[express] == 120  # three quarters
    assert used[other] in (2, 3)  # of the 12 turns after the 28 in which the first lane's four clients catch up


def test_a_mistake_is_its_own_requests(alone: Transducer) -> None:
    with Scheduler(alone) as scheduler:
        futures = [scheduler.submit(each) for each in (Request("a"), Request("a", prefix="b" * 9), Request("b"))]
        alignments = scheduler.submit(Request("a", extras=Extras(alignments=True, head=7)))
        with pytest.raises(RequestError, match="do not fit max_length = 6"):
            futures[1].result(PATIENCE)
        with pytest.raises(RequestError):
            alignments.result(PATIENCE)
        assert [futures[place].result(PATIENCE).request.source for place in (0, 2)] == ["a", "b"]


def test_a_bug_ends_what_is_searched_and_nothing_else(alone: Transducer, gate: Gate) -> None:
    with Scheduler(replace(alone, model=gate), Greedy(6)) as scheduler:  # type: ignore[arg-type]
        future = scheduler.submit(Request("abc"))
        assert gate.asked.wait(PATIENCE)
        gate.broken = True
        gate.open.set()
        with pytest.raises(ZeroDivisionError, match="a bug"):
            future.result(PATIENCE)
        gate.broken = False
        assert scheduler.submit(Request("abc")).result(PATIENCE).request.source == "abc"


def test_a_closed_scheduler_has_answered_all_and_takes_no_more(alone: Transducer) -> None:
    scheduler = Scheduler(alone, batch_size=2)
    futures = [scheduler.submit(Request("abc")) for _ in range(5)]
    scheduler.close()
    assert all(future.done() for future in futures)
    with pytest.raises(StoppedError, match="the scheduler is closed"):
        scheduler.submit(Request("abc"))


def test_there_is_room_for_a_request(alone: Transducer) -> None:
    with pytest.raises(UserError, match="batch_size = 0: 1 to 1,000,000 sentences go in a batch"):
        Scheduler(alone, batch_size=0, queue=5)
    with pytest.raises(UserError, match="queue = 0: at least one request"):
        Scheduler(alone, queue=0)
