"""What corpus scores are made of: rows that add up, of all examples or of any selection of them.

N examples, R resamples, K statistics of a metric.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from transduce.errors import UserError
from transduce.protocols import Metric
from transduce.types import Example, Prediction

Floats = NDArray[np.float64]


@runtime_checkable
class OfSentences(Protocol):
    """A metric that scores a sentence otherwise than a corpus of nothing else."""

    def sentence_score(self, row: Sequence[float]) -> float: ...


@runtime_checkable
class OfLabels(Protocol):
    """A metric whose statistics are of the labels that it has met, in that order."""

    @property
    def labels(self) -> Sequence[str]: ...


@dataclass(frozen=True)
class Statistics:
    """A metric's statistics of every example, [N, K]: their sum gives its score, and the sum of any rows theirs."""

    metric: Metric
    rows_NK: Floats

    @property
    def name(self) -> str:
        return self.metric.name

    @property
    def score(self) -> float:
        return self.metric.score(self.rows_NK.sum(0).tolist())

    def scores(self, sums_RK: Floats) -> Floats:
        """[R]: the score of each sum of rows."""
        return np.array([self.metric.score(sums) for sums in sums_RK.tolist()])

    @property
    def width(self) -> int:
        return int(self.rows_NK.shape[1])

    def beside(self, other: Statistics) -> Statistics:
        """With zeros for what another system's outputs have shown and this one's not (labels).

        Raises ValueError where two metrics have met labels in different orders: their numbers are of different ones.
        """
        if isinstance(self.metric, OfLabels) and isinstance(other.metric, OfLabels):
            for ours, theirs in zip(self.metric.labels, other.metric.labels, strict=False):
                if ours != theirs:
                    raise UserError(
                        f"two metrics {self.name!r} measured the systems, and {ours!r} is to one what {theirs!r} is to "
                        "the other: take the statistics of both systems by one metric"
                    )
        missing = max(0, other.width - self.width)
        return Statistics(self.metric, np.pad(self.rows_NK, ((0, 0), (0, missing)))) if missing else self

    def of(self, examples: Sequence[int] | NDArray[Any]) -> Statistics:
        """Those of the examples of these numbers."""
        return Statistics(self.metric, self.rows_NK[np.asarray(examples)])

    def each(self) -> Floats:
        """[N]: the score of every example by itself."""
        return np.array([sentence_score(self.metric, row) for row in self.rows_NK])


def statistics(
    metrics: Sequence[Metric], predictions: Sequence[Prediction], examples: Sequence[Example]
) -> list[Statistics]:
    """Those of each metric on predictions in the order of the examples.

    Raises ValueError where there is nothing to measure, where the counts differ, or where a metric misses something
    in an example (a reference).
    """
    if len(predictions) != len(examples):
        raise UserError(f"{len(predictions)} predictions for {len(examples)} examples: give one for each, in order")
    if not examples:
        raise UserError("no examples to measure on: a score of nothing is not defined")
    pairs = list(zip(predictions, examples, strict=True))
    return [Statistics(metric, _equally_wide([metric.statistics(*pair) for pair in pairs])) for metric in metrics]


def sentence_score(metric: Metric, row: Sequence[float]) -> float:
    """The score of the statistics of one sentence."""
    return metric.sentence_score(row) if isinstance(metric, OfSentences) else metric.score(row)


def check_compares_texts(metric: Metric) -> None:
    """Raise ValueError for one that measures references by a model and not outputs."""
    if metric.needs_forcing:
        raise UserError(f"metric {metric.name!r} compares no texts; minimum risk takes bleu, chrf, wer, per, ...")


def _equally_wide(rows: Sequence[Sequence[float]]) -> Floats:
    """[N, K]; a row that has fewer numbers than another (labels not met yet) has zeros for them."""
    widest = max(map(len, rows))
    return np.array([[*row, *[0.0] * (widest - len(row))] for row in rows], float)
