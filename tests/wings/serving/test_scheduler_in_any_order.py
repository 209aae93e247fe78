"""A model of the scheduler: whatever order requests, cancels, deadlines and steps have, each request ends once."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

import transduce
from transduce import Constraints, Request
from transduce.core.errors import BusyError, RequestError
from transduce.wings.serving.request_queue import Aside
from transduce.wings.serving.scheduler import Scheduler

REQUESTS = [
    *map(Request, ["abc", "", "zé", "b" * 5]),
    Request("cab", nbest=2),  # a lane of its own
    Request("abc", prefix="b"),
    Request("ab", constraints=Constraints(required=["c"])),
    Request("a", prefix="c" * 40),  # too long: a mistake
]
QUEUE = 6


class Stepped(Scheduler):
    """A scheduler without a thread: ``step`` does one turn of a lane, and ends when its answers are made."""

    turns = 0

    def step(self) -> None:
        self.turns = 1
        self._answer_all()
        self._aside.close()
        self._aside = Aside(self._work)

    def _wait(self) -> Any:
        if not self.turns:
            return None
        self.turns = 0
        busy = self._busy()
        return self._turns.next(busy) if busy else None


@dataclass
class Asked:
    request: Request
    future: Future[Any]
    deadline: float
    cancelled: bool = False


def test_each_request_ends_once_and_rightly(trained: Path) -> None:
    alone = transduce.load(trained, device="cpu")
    expected: dict[int, Any] = {}
    for place, request in enumerate(REQUESTS):
        try:
            expected[place] = [output.text for output in next(iter(alone.answer([request]))).outputs]
        except RequestError as error:
            expected[place] = str(error)

    class Orders(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.now = 0.0
            self.scheduler = Stepped(alone, batch_size=2, queue=QUEUE, clock=lambda: self.now)
            self.asked: list[tuple[int, Asked]] = []

        @rule(
            places=st.lists(st.integers(0, len(REQUESTS) - 1), min_size=1, max_size=4),
            seconds=st.sampled_from([None, 0.0, 1.0, 3.0]),
            client=st.integers(0, 2),
        )
        def submit(self, places: list[int], seconds: float | None, client: int) -> None:
            waiting = self.scheduler.waiting
            try:
                futures = self.scheduler.submit_all([REQUESTS[place] for place in places], seconds, client)
            except BusyError:
                assert waiting + len(places) > QUEUE
                return
            deadline = float("inf") if seconds is None else self.now + seconds
            for place, future in zip(places, futures, strict=True):
                self.asked.append((place, Asked(REQUESTS[place], future, deadline)))

        @precondition(lambda self: self.asked)
        @rule(data=st.data())
        def cancel(self, data: st.DataObject) -> None:
            _, asked = data.draw(st.sampled_from(self.asked))
            asked.cancelled |= asked.future.cancel()

        @rule(seconds=st.sampled_from([0.5, 1.0, 5.0]))
        def wait(self, seconds: float) -> None:
            self.now += seconds

        @rule()
        def step(self) -> None:
            self.scheduler.step()
            for _, asked in self.asked:
                assert asked.future.done() or self.now < asked.deadline, "a late request still waits"

        @invariant()
        def ended_rightly(self) -> None:
            for place, asked in self.asked:
                if asked.cancelled or not asked.future.done():
                    assert asked.future.cancelled() == asked.cancelled
                    continue
                error = asked.future.exception()
                if isinstance(error, TimeoutError):
                    assert self.now >= asked.deadline
                elif error is not None:
                    assert isinstance(error, RequestError)
                    assert str(error) in expected[place]
                else:
                    assert [output.text for output in asked.future.result().outputs] == expected[place]
            assert self.scheduler.waiting <= sum(not a.future.done() for _, a in self.asked)

        def teardown(self) -> None:
            for _ in range(400):
                if not self.scheduler._busy():
                    break
                self.scheduler.step()
            assert all(asked.future.done() for _, asked in self.asked)
            self.ended_rightly()
            assert not self.scheduler._work_of, "a client is charged for work that has ended"

    run_state_machine_as_test(
        Orders,
        settings=settings(
            max_examples=15, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
