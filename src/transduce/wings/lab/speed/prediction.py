"""The speed of answers: many sources at once, and one after the other."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from transduce.answers.transducer import Transducer
from transduce.core.errors import UserError
from transduce.wings.lab.speed.products import ProductCounter

WARM_UP = 5  # requests before latency is measured


@dataclass(frozen=True)
class Throughput:
    """The same ``sentences`` answered several times in batches: the ``seconds`` of each round.

    ``tokens`` is the number of tokens of the best outputs of a round, ends included. ``operations`` is the number of
    floating-point operations of a round's products; None if worker processes computed them.
    """

    sentences: int
    tokens: int
    seconds: tuple[float, ...]
    operations: int | None

    @property
    def sentences_per_second(self) -> float:
        """The number of sentences per second in the median round."""
        return self.sentences / median(self.seconds)

    @property
    def tokens_per_second(self) -> float:
        """The number of tokens of the best outputs per second in the median round."""
        return self.tokens / median(self.seconds)

    @property
    def gflops(self) -> float | None:
        """Billions of operations a second in the median round, or None if they were not counted."""
        return None if self.operations is None else self.operations / median(self.seconds) / 1e9


@dataclass(frozen=True)
class Latency:
    """The milliseconds of each request, for a caller that sends the next one when it has the answer."""

    milliseconds: tuple[float, ...]

    def percentile(self, share: float) -> float:
        """The time within which ``share`` percent of the requests were answered."""
        return float(np.percentile(self.milliseconds, share))


def measure_throughput(
    transducer: Transducer, sources: Sequence[str], rounds: int = 3, batch_size: int = 64
) -> Throughput:
    """Answers all sources ``rounds`` times in batches. One more round before them counts operations and warms up.

    Raises UserError if there are no sources.
    """
    _check(sources)
    counting = ProductCounter()
    with counting:
        best = [outputs[0] for outputs in transducer.predict(sources, batch_size=batch_size)]
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in transducer.predict(sources, batch_size=batch_size):
            pass
        seconds.append(time.perf_counter() - began)
    operations = counting.get_total_flops() if transducer.workers is None else None
    return Throughput(len(sources), sum(len(output.ids) for output in best), tuple(seconds), operations)


def measure_latency(transducer: Transducer, sources: Sequence[str], requests: int = 100) -> Latency:
    """Measures ``requests`` requests of one source each, one after the other. If there are fewer sources, they are
    repeated from the first. ``WARM_UP`` requests before them are not measured.

    Raises UserError if there are no sources.
    """
    _check(sources)
    sent = [sources[number % len(sources)] for number in range(WARM_UP + requests)]
    milliseconds = []
    for source in sent:
        began = time.perf_counter()
        next(transducer.predict([source], batch_size=1))
        milliseconds.append(1000 * (time.perf_counter() - began))
    return Latency(tuple(milliseconds[WARM_UP:]))


def _check(sources: Sequence[str]) -> None:
    if not sources:
        raise UserError("there are no sources to answer: give a file with lines, or a split with examples")
