"""What reranks, and how it is applied to a model's outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import tee
from typing import Any, Protocol

from transduce.data.windows import windows
from transduce.outputs import Output
from transduce.protocols import Search
from transduce.reranking.candidates import CandidateLists, beside
from transduce.transducer import Transducer


class Reranker(Protocol):
    """For each source, its outputs in another order, best first, with another ``score``; of equal texts one is left."""

    def __call__(self, sources: Sequence[str], found: Sequence[Sequence[Output]]) -> list[list[Output]]: ...


def rerank(
    transducer: Transducer,
    sources: Iterable[str],
    reranker: Reranker,
    search: Search[Any] | None = None,
    batch_size: int = 64,
    candidates: Sequence[CandidateLists] = (),
) -> Iterator[list[Output]]:
    """For each source, in order, what the search finds, and ``candidates`` have besides, reranked. Sources are read
    ahead as ``predict`` reads them."""
    asked, answered = tee(sources)
    found = zip(answered, transducer.predict(asked, search, batch_size), strict=True)
    for window in windows(beside(transducer, found, candidates, batch_size), batch_size):
        yield from reranker([source for source, _ in window], [outputs for _, outputs in window])


def distinct(outputs: Sequence[Output]) -> list[Output]:
    """The first of each text."""
    first: dict[str, Output] = {}
    for output in outputs:
        first.setdefault(output.text, output)
    return list(first.values())


def ordered(outputs: Sequence[Output], scores: Sequence[float]) -> list[Output]:
    """With these scores, best first; of equals, the one that came first."""
    scored = [replace(output, score=score) for output, score in zip(outputs, scores, strict=True)]
    return sorted(scored, key=lambda output: -output.score)
