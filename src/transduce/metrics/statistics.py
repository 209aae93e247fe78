"""The statistics of corpus scores: rows that add up, over all examples or a selection.

N examples, R resamples, K statistics of a metric, S seeds: models that differ only in the seed of their training.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from transduce.core.errors import UserError
from transduce.core.protocols import Metric
from transduce.core.types import Example, Prediction

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

    With several ``seeds``, a row holds the statistics of all of them, and the score is the mean of their scores. The
    first S columns are the first statistic of each seed, the next S the second.
    """

    metric: Metric
    rows_NK: Floats
    seeds: int = 1

    @property
    def name(self) -> str:
        return self.metric.name

    @property
    def score(self) -> float:
        """The metric's score of the whole corpus."""
        return float(self.scores(self.rows_NK.sum(0, keepdims=True))[0])

    def scores(self, sums_RK: Floats) -> Floats:
        """[R]: the score of each row of ``sums_RK``, which are sums of rows of statistics."""
        return self._means(self.metric.score, sums_RK)

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
        return replace(self, rows_NK=np.pad(self.rows_NK, ((0, 0), (0, missing)))) if missing else self

    def of(self, examples: Sequence[int] | NDArray[np.int64]) -> Statistics:
        """The statistics of the examples with these indices, by the same metric."""
        return replace(self, rows_NK=self.rows_NK[np.asarray(examples)])

    def each(self) -> Floats:
        """[N]: the score of each example alone, as ``sentence_score`` gives it."""
        return self._means(partial(sentence_score, self.metric), self.rows_NK)

    def _means(self, score: Callable[[Sequence[float]], float], rows_RK: Floats) -> Floats:
        """[R]: for each row, the mean of its seeds' scores."""
        by_seed_SRK = [rows_RK[:, seed :: self.seeds] for seed in range(self.seeds)]
        scores_SR: Floats = np.array([[score(row) for row in rows_RK.tolist()] for rows_RK in by_seed_SRK])
        means_R: Floats = scores_SR.mean(0)
        return means_R


def mean_of_seeds(seeds: Sequence[Statistics]) -> Statistics:
    """The statistics of several seeds' outputs for the same examples, whose score is the mean of theirs.

    Raises UserError if the metrics saw labels in different orders.
    """
    widest = max(seeds, key=lambda each: each.width)
    rows_SNK = np.stack([each.beside(widest).rows_NK for each in seeds])
    return Statistics(widest.metric, rows_SNK.transpose(1, 2, 0).reshape(rows_SNK.shape[1], -1), len(seeds))


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

    A sentence is no corpus: if nothing is counted in it on either side, such as no entity, it is right, and its score
    is 100, or 0 if lower is better. If the score is NaN for another reason, such as a precision without outputs, it is
    the worst one.
    """
    score = metric.sentence_score(row) if isinstance(metric, OfSentences) else metric.score(row)
    if not math.isnan(score):
        return score
    right = not any(row)
    return 100.0 if right == metric.higher_is_better else 0.0


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
