"""Throughput of training, measured by callbacks of a run in its own process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from statistics import median
from typing import Any, TypeVar

from transduce.training.callbacks import Callback, Started, Update, Validated
from transduce.wings.lab.speed.report import peak_memory

SETTLING = 10  # updates before the clock starts, because the first ones fill caches and choose kernels

T = TypeVar("T")


@dataclass(frozen=True)
class Block:
    """A block of training: non-pad target tokens per second, updates, the last loss with smoothing, and parameters.
    ``memory`` is the largest memory of the process in MiB.
    """

    tokens_per_second: float
    updates: int
    loss: float
    parameters: int
    memory: float


class Stopwatch(Callback):
    """Records the time of each update, the last loss and the validation loss. ``clock`` may be the processor time of
    the process, which other work on a shared machine hardly changes.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.marks: list[tuple[int, float]] = []
        self.loss = self.validation_loss = float("nan")
        self.parameters = 0

    def on_start(self, started: Started) -> None:
        self.parameters = started.parameters
        self.marks.append((0, self.clock()))

    def on_update(self, update: Update) -> None:
        self.marks.append((update.step, self.clock()))
        self.loss = update.loss

    def on_validation(self, validated: Validated) -> None:
        self.validation_loss = validated.loss

    def block(self, target_lengths: Iterator[int]) -> Block:
        """The throughput between the last mark and the first one after ``SETTLING`` updates. A block that is too slow
        for that is measured from its start. ``target_lengths`` has the number of target tokens of each batch.
        """
        settled = [mark for mark in self.marks if mark[0] >= SETTLING]
        marks = settled if len(settled) > 1 else self.marks
        (first, began), (last, ended) = marks[0], marks[-1]
        lengths = [next(target_lengths) for _ in range(last)]
        return Block(sum(lengths[first:]) / (ended - began), last - first, self.loss, self.parameters, peak_memory())


def share_of_limit(rates: Sequence[float], limits: Sequence[float]) -> float:
    """A rate as a share of the machine's limit: the median of the rounds, each with a rate and a limit.

    A training is not faster than its products. If it is, its products were measured in a busier moment, and it is
    itself the fastest work of the round. So no share is above 1.
    """
    return median(rate / max(rate, limit) for rate, limit in zip(rates, limits, strict=True))


def alone(function: Callable[..., T], *arguments: Any) -> T:
    """Calls the function in its own process, and returns its result."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()
