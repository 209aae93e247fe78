"""Rerankers, and how they are applied to a model's answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from transduce.answers.answer import Answer, Output
from transduce.answers.batches import window_size, windows
from transduce.answers.request import requests_for
from transduce.answers.transducer import Transducer
from transduce.core.protocols import AnySearch
from transduce.wings.combining.reranking.candidates import CandidateLists, with_candidates


class Reranker(Protocol):
    """The contract of rerankers. A call takes answers and returns them in the same order. The outputs of each answer
    are sorted again, best first, and have new scores.

    Outputs of equal text are merged into one.
    """

    def __call__(self, answers: Sequence[Answer]) -> list[Answer]: ...


def rerank(
    transducer: Transducer,
    sources: Iterable[str],
    reranker: Reranker,
    search: AnySearch | None = None,
    batch_size: int = 64,
    candidates: Sequence[CandidateLists] = (),
    tolerant: bool = False,
) -> Iterator[Answer]:
    """Searches for the outputs of each source and reranks them. Yields the answers in the order of ``sources``.

    ``search`` replaces the transducer's own search; None keeps the own search. The outputs that ``candidates`` list for
    a source are reranked together with the transducer's. Sources are read ahead as ``Transducer.answer`` reads
    requests, and ``tolerant`` is its.
    """
    answers = transducer.answer(requests_for(sources), search, batch_size, tolerant=tolerant)
    for window in windows(answers, window_size(batch_size)):
        answered = [answer for answer in window if not answer.problem]
        ranked = iter(reranker(list(with_candidates(transducer, answered, candidates, batch_size))))
        yield from (answer if answer.problem else next(ranked) for answer in window)


def distinct(outputs: Sequence[Output]) -> list[Output]:
    """The first output of each text, in order."""
    first: dict[str, Output] = {}
    for output in outputs:
        first.setdefault(output.text, output)
    return list(first.values())


def ordered(outputs: Sequence[Output], scores: Sequence[float]) -> list[Output]:
    """Gives each output the score at its index as ``score``, and sorts the outputs, best first. Equal scores keep their
    order.
    """
    scored = [replace(output, score=score) for output, score in zip(outputs, scores, strict=True)]
    return sorted(scored, key=lambda output: -output.score)
