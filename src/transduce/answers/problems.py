"""A request that cannot be answered is told as its own problem. All requests before and after it are answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from transduce.answers.answer import Answer
from transduce.answers.batches import windows
from transduce.answers.request import Request
from transduce.core.errors import MissingPackageError, RequestError, UserError

HOPELESS = 16  # requests; if none of the first ones can be answered, the settings are wrong and not the requests
Answering = Callable[[Sequence[Request], int], Sequence[Answer]]


def in_windows(requests: Iterable[Request], size: int, answer: Answering, first: int = 1) -> Iterator[Answer]:
    """Yields an answer to each request, in order, as ``with_problems`` does. Answers ``size`` requests before it reads
    the next. The first request has the number ``first``.
    """
    for window in windows(requests, size):
        yield from with_problems(window, answer, first)
        first += len(window)


def with_problems(requests: Sequence[Request], answer: Answering, first: int) -> Iterator[Answer]:
    """Yields an answer to each request, in order. A request that cannot be answered gets one without outputs, whose
    ``problem`` says why.

    ``answer`` answers all the given requests, or raises UserError. It is given the number of the first of them. If it
    fails, it gets each half of them, so that it soon answers all others together.
    """
    try:
        found = answer(requests, first)
    except MissingPackageError:
        raise
    except UserError as error:
        if len(requests) == 1:
            text = str(error)
            yield Answer(requests[0], (), problem=text if text.startswith("input ") else f"input {first}: {text}")
            return
        half = len(requests) // 2
        yield from with_problems(requests[:half], answer, first)
        yield from with_problems(requests[half:], answer, first + half)
        return
    yield from found


def settled(answers: Iterable[Answer], tolerant: bool, hopeless: int = HOPELESS) -> Iterator[Answer]:
    """Yields the answers. Unless ``tolerant``, it raises the first problem as a RequestError, after the answers before
    it.

    If ``tolerant``, it raises the first problem only if none of the first ``hopeless`` requests could be answered, or
    none of all.
    """
    waiting: list[Answer] | None = []  # the first answers, as long as all have problems
    for answer in answers:
        if answer.problem and not tolerant:
            raise RequestError(answer.problem)
        if answer.problem and waiting is not None:
            waiting.append(answer)
            if len(waiting) == hopeless:
                break
            continue
        yield from waiting or ()
        waiting = None
        yield answer
    if waiting:
        raise RequestError(waiting[0].problem)
