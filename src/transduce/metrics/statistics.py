"""The statistics of corpus scores: rows that add up, over all examples or a selection.

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
    """The contract of metrics with a separate score for a single sentence, because a corpus of one sentence would score
    differently. ``sentence_score`` maps the row of a sentence's statistics to that score.
    """

    def sentence_score(self, row: Sequence[float]) -> float: ...


@runtime_checkable
class OfLabels(Protocol):
    """The contract of metrics whose statistics have columns for labels. ``labels`` are those seen so far, in the order
    of their columns.
    """

    @property
    def labels(self) -> Sequence[str]: ...


@dataclass(frozen=True)
class Statistics:
    """A metric's statistics of each example, one row per example in ``rows_NK``. The metric's score of some examples is
    a function of the sum of their rows; the sum of all rows gives the corpus score.
    """

    metric: Metric
    rows_NK: Floats

    @property
    def name(self) -> str:
        return self.metric.name

    @property
    def score(self) -> float:
        """The metric's score of the whole corpus."""
        return self.metric.score(self.rows_NK.sum(0).tolist())

    def scores(self, sums_RK: Floats) -> Floats:
        """[R]: the score of each row of ``sums_RK``, which are sums of rows of statistics."""
        return np.array([self.metric.score(sums) for sums in sums_RK.tolist()])

    @property
    def width(self) -> int:
        """K, the number of statistics in a row."""
        return int(self.rows_NK.shape[1])

    def beside(self, other: Statistics) -> Statistics:
        """These statistics, with columns of zeros added at the end if rows of ``other`` are wider, because of labels
        that only ``other`` has.

        Raises UserError if two metrics saw labels in different orders, because their columns differ.
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
        """The statistics of the examples with these indices, by the same metric."""
        return Statistics(self.metric, self.rows_NK[np.asarray(examples)])

    def each(self) -> Floats:
        """[N]: the score of each example alone, as ``sentence_score`` gives it."""
        return np.array([sentence_score(self.metric, row) for row in self.rows_NK])


def statistics(
    metrics: Sequence[Metric], predictions: Sequence[Prediction], examples: Sequence[Example]
) -> list[Statistics]:
    """The statistics of each metric, in the order of the metrics. ``predictions`` are in the order of the
    examples.

    Raises UserError if there is no example, if there are more or fewer predictions than examples, or if an example or a
    prediction lacks something that a metric needs, such as a reference.
    """
    if len(predictions) != len(examples):
        raise UserError(f"{len(predictions)} predictions for {len(examples)} examples: give one for each, in order")
    if not examples:
        raise UserError("no examples to measure on: a score of nothing is not defined")
    pairs = list(zip(predictions, examples, strict=True))
    return [Statistics(metric, _equally_wide([metric.statistics(*pair) for pair in pairs])) for metric in metrics]


def sentence_score(metric: Metric, row: Sequence[float]) -> float:
    """The score of one sentence, from the row of its statistics: by the metric's ``sentence_score`` if it has one,
    otherwise by its ``score``, as a corpus of one sentence.
    """
    return metric.sentence_score(row) if isinstance(metric, OfSentences) else metric.score(row)


def check_compares_texts(metric: Metric) -> None:
    """Raises UserError if a metric scores references with the model (``needs_forcing``) instead of comparing outputs
    with them.
    """
    if metric.needs_forcing:
        raise UserError(f"metric {metric.name!r} compares no texts; minimum risk takes bleu, chrf, wer, per, ...")


def _equally_wide(rows: Sequence[Sequence[float]]) -> Floats:
    """[N, K]: the rows, each padded at its end with zeros for labels that were not seen yet."""
    widest = max(map(len, rows))
    return np.array([[*row, *[0.0] * (widest - len(row))] for row in rows], float)


def references(example: Example) -> tuple[str, ...]:
    """The references of an example. Raises UserError if it has none, because no score is then defined."""
    if not example.references:
        raise UserError(f"no reference for the source {example.source!r}: each example that is measured needs one")
    return example.references
