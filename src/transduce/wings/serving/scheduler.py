"""Continuous batching of the requests to a model in PyTorch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import cast

import torch

from transduce.answers.answer import Answer
from transduce.answers.pipeline import Pipeline
from transduce.answers.request import Request
from transduce.answers.text_model import SourceRow
from transduce.core.protocols import AnySearch, Autoregressive, Searching, can
from transduce.core.types import Hypothesis
from transduce.search.base import Continuous, G, Group
from transduce.search.continuous import ContinuousBatch
from transduce.wings.serving.request_queue import RequestQueue
from transduce.wings.serving.work import Finished


class Scheduler(RequestQueue[SourceRow]):
    """Answers requests in one thread, by continuous batching.

    Its answer is the answer of ``pipeline.answer``, up to rounding. ``search`` is the pipeline's own by default. The
    other arguments are as for ``RequestQueue``.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        search: AnySearch | None = None,
        batch_size: int = 64,
        queue: int = 1024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(PipelineWork(pipeline, search), batch_size, queue, clock)


class PipelineWork:
    """The ``Work`` of a pipeline, and its running batches. Requests that cannot share a running batch have constraints,
    a given target, replaced unknowns, an empty source, or a search or an engine without continuous batching.
    """

    def __init__(self, pipeline: Pipeline, search: AnySearch | None = None) -> None:
        self._pipeline, self._search = pipeline, search or pipeline.search

    @property
    def size(self) -> int:
        return max(1, getattr(self._search, "size", 1))

    @property
    def small(self) -> bool:
        return not self._pipeline.source_tokenizer.signal

    @property
    def batches(self) -> PipelineWork:
        return self

    def read(self, request: Request) -> SourceRow:
        return self._pipeline.read([request.text])[0]

    def answer(self, requests: Sequence[Request], sources: Sequence[SourceRow], batch_size: int) -> list[Answer]:
        return self._pipeline.answer_read(requests, sources, 1, self._search, batch_size)

    def shared_by(self, request: Request) -> bool:
        search = self._search_with(request.nbest)
        runs = not can(type(self._pipeline.model), Searching) and isinstance(search, Continuous) and search.staggered
        special = request.target is not None or request.constraints or request.extras.replace_unknowns is not None
        return runs and not special and not self._pipeline.has_empty_output(request, self._search)

    def running_batch(self, nbest: int | None, batch_size: int) -> RunningBatch:
        """It has fewer sources if each has more outputs than the pipeline's own search finds."""
        search = cast(Continuous[Group], self._search_with(nbest))  # ``shared_by`` has asked
        size = max(1, getattr(search, "size", 1))
        model = cast(Autoregressive[object], self._pipeline.model)
        batch = ContinuousBatch(search, model, max(1, batch_size * self.size // max(self.size, size)))
        return RunningBatch(self._pipeline, batch)

    def answer_found(self, request: Request, source: SourceRow, found: list[Hypothesis]) -> Answer:
        return self._pipeline.answers_from([request], [source], [found])[0]

    def _search_with(self, nbest: int | None) -> AnySearch:
        return self._search if nbest is None else self._search.resized(nbest=nbest)


class RunningBatch:
    """A running batch of a pipeline."""

    def __init__(self, pipeline: Pipeline, batch: ContinuousBatch[G]) -> None:
        self._pipeline, self._batch = pipeline, batch

    @property
    def free(self) -> int:
        return self._batch.free

    @property
    def has_room(self) -> bool:
        return self._batch.has_room

    def enter(self, keys: Sequence[int], requests: Sequence[Request], sources: Sequence[SourceRow]) -> Finished:
        prefixes = [self._pipeline.prefix_ids(each.prefix) for each in requests]
        source = self._pipeline.padded([each.row for each in sources])
        prefix = self._pipeline.padded(prefixes, torch.long) if any(prefixes) else None
        with self._pipeline.computing():
            return self._batch.enter(source, keys, prefix)

    def step(self, most: int) -> Finished:
        with self._pipeline.computing():
            return self._batch.step()

    def drop(self, keys: Sequence[int]) -> None:
        self._batch.drop(keys)
