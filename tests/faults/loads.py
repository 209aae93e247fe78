"""Mixed requests to a scheduler, a model whose batches fail now and then, and what became of each request."""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future
from typing import Any

from transduce import Request, Transducer
from transduce.answers.answer import Answer
from transduce.core.errors import RequestError, UserError
from transduce.search.constraints.phrases import Constraints
from transduce.wings.serving.scheduler import PipelineWork, RunningBatch
from transduce.wings.serving.work import Finished

WRONG = ("lost", "different", "an error of another request")  # outcomes that no request may have
FAULTY = 200  # steps and batches, of which one fails
NEAR = 1e-3  # how far the log-probabilities of two batches may be from each other
Told = list[tuple[str, float]] | str  # the texts and the log-probabilities of an answer, or its error


class BrokenError(Exception):
    """A fault of the machine, in a step of a batch."""


class FaultyWork(PipelineWork):
    """The work of a model; a batch fails sometimes."""

    def __init__(self, model: Transducer, draw: random.Random) -> None:
        super().__init__(model)
        self.draw = draw

    def answer(self, requests: Sequence[Request], sources: Sequence[Any], batch_size: int) -> list[Answer]:
        self.fail_sometimes()
        return super().answer(requests, sources, batch_size)

    def running_batch(self, nbest: int | None, batch_size: int) -> RunningBatch:
        return FaultyBatch(super().running_batch(nbest, batch_size), self)

    def fail_sometimes(self) -> None:
        if not self.draw.randrange(FAULTY):
            raise BrokenError("the machine failed")


class FaultyBatch(RunningBatch):
    """A running batch whose steps fail sometimes."""

    def __init__(self, batch: RunningBatch, work: FaultyWork) -> None:
        self._pipeline, self._batch, self._work = batch._pipeline, batch._batch, work

    def step(self, most: int) -> Finished:
        self._work.fail_sometimes()
        return super().step(most)


class Load:
    """Some requests and their answers when each is asked alone."""

    def __init__(self, model: Transducer, draw: random.Random) -> None:
        texts = sorted({"".join(draw.choices("abc", k=draw.randrange(6))) for _ in range(40)})
        plain = [Request(text) for text in texts]
        more = [Request(text, nbest=2) for text in texts[::3]]
        begun = [Request(text, prefix="b") for text in texts[::4]]
        forced = [Request(text, constraints=Constraints(forbidden=("a",))) for text in texts[::8]]
        scored = [Request(text, target=text[::-1]) for text in texts[::8]]
        wrong = [Request(texts[-1], prefix="abcabcabcabc")]
        self.requests = 4 * plain + 2 * more + begun + forced + scored + wrong
        self.alone = {id(request): _answer(model, request) for request in self.requests}
        self.work = FaultyWork(model, random.Random(draw.random()))  # another thread draws from it

    def outcome(self, request: Request, future: Future[Answer], seconds: float | None, cancelled: bool) -> str:
        """What became of a request after the scheduler has closed."""
        if not future.done():
            return "lost"
        expected = self.alone[id(request)]
        try:
            found = _told(future.result(0))
        except CancelledError:
            return "cancelled" if cancelled else "lost"
        except TimeoutError:
            return "too late" if seconds is not None else "lost"
        except BrokenError:
            return "in a batch that failed"
        except RequestError as error:
            return "refused" if expected == str(error) else "an error of another request"
        return "answered" if _equal(found, expected) else "different"


def _answer(model: Transducer, request: Request) -> Told:
    try:
        return _told(next(iter(model.answer([request]))))
    except UserError as error:
        return str(error).removeprefix("input 1: ")  # of a file of requests; a server has no such number


def _told(answer: Answer) -> Told:
    return [(output.text, output.log_prob or 0.0) for output in answer.outputs]


def _equal(found: Told, expected: Told) -> bool:
    if isinstance(found, str) or isinstance(expected, str) or len(found) != len(expected):
        return False
    return all(a == b and abs(x - y) < NEAR for (a, x), (b, y) in zip(found, expected, strict=True))
