"""What a queue of requests needs of a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar

from transduce.answers.answer import Answer
from transduce.answers.request import Request

R = TypeVar("R")
R_contra = TypeVar("R_contra", contravariant=True)
Finished = Iterable[tuple[int, Any]]  # the key of a request, and what its search has found, for ``answer_found``


class Running(Protocol[R_contra]):
    """A batch that requests enter and leave, each with a key."""

    @property
    def free(self) -> int:
        """How many requests have room."""
        ...

    @property
    def has_room(self) -> bool:
        """True if requests may enter at this step."""
        ...

    def enter(self, keys: Sequence[int], requests: Sequence[Request], sources: Sequence[R_contra]) -> Finished:
        """Adds requests with their sources. Returns those that need no step."""
        ...

    def step(self, most: int) -> Finished:
        """Does a step of all requests, or up to ``most`` steps. Returns those that have finished, which leave."""
        ...

    def drop(self, keys: Sequence[int]) -> None:
        """Removes requests that nobody waits for."""
        ...


class Batches(Protocol[R_contra]):
    """The running batches of a model."""

    def shared_by(self, request: Request) -> bool:
        """True if the request can enter a running batch. Raises UserError for more outputs than the search has."""
        ...

    def running_batch(self, nbest: int | None, batch_size: int) -> Running[R_contra]:
        """An empty batch for requests with this ``nbest``."""
        ...

    def answer_found(self, request: Request, source: R_contra, found: Any) -> Answer:
        """The answer from what a running batch has found. For a request without extras it is called during steps."""
        ...


class Work(Protocol[R]):
    """Answers batches of requests. R is a source as the model reads it."""

    @property
    def size(self) -> int:
        """How many outputs the model's own search follows for a source."""
        ...

    @property
    def small(self) -> bool:
        """True if a source takes little memory after it was read, so that all that wait may be read."""
        ...

    @property
    def batches(self) -> Batches[R] | None:
        """The running batches; None if the model answers whole batches only."""
        ...

    def read(self, request: Request) -> R:
        """The source of a request; never None. Several threads call it, also during a step. Raises RequestError for one
        that cannot be read.
        """
        ...

    def answer(self, requests: Sequence[Request], sources: Sequence[R], batch_size: int) -> list[Answer]:
        """An answer to each request. Raises RequestError if one of them cannot be answered."""
        ...
