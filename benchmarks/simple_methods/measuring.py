"""Scores of two systems on the same examples, and their difference."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simple_methods.base import Examples, Splits, Task
from simple_methods.texts import cosines
from transduce.answers.transducer import Transducer
from transduce.core.protocols import Metric
from transduce.core.types import Example, Prediction
from transduce.metrics.base import metric
from transduce.metrics.significance import Interval, Resampling, middle
from transduce.metrics.statistics import Statistics, mean_of_seeds, statistics
from transduce.wings.records.changes import as_shipped
from transduce.wings.records.provenance import fingerprint_of_examples
from transduce.wings.records.record import Figure, Record
from transduce.wings.vectors.representations.sentences import sentence_vectors, stacked

Floats = NDArray[np.float64]
RESAMPLES, SEED = 1000, 1


class Correlation:
    """``correlation``: 100 times Pearson's correlation of the numbers of outputs and references."""

    name = "correlation"
    higher_is_better = True
    needs_forcing = False
    signature = "pearson"

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        x, y = float(prediction.text), float(example.references[0])
        return 1.0, x, y, x * x, y * y, x * y

    def score(self, total: Sequence[float]) -> float:
        n, x, y, xx, yy, xy = total
        spread = (n * xx - x * x) * (n * yy - y * y)
        return 100 * (n * xy - x * y) / spread**0.5 if spread > 0 else float("nan")


def metric_of(name: str) -> Metric:
    return Correlation() if name == Correlation.name else metric(name)


@dataclass(frozen=True)
class Row:
    """The two systems on a set: their scores and the difference, ours less the simple one's, each with its interval.
    ``ours`` is None if the set has neither a run nor a record. ``source`` is the name of the record; empty for runs.
    """

    simple: Figure
    simple_seconds: float
    ours: Figure | None = None
    difference: Figure | None = None
    seconds: float | None = None
    source: str = ""

    def better(self, higher: bool) -> str:
        """Which system is better by more than the interval."""
        if self.difference is None or self.difference.low is None or self.difference.high is None:
            return "–"
        if self.difference.low <= 0 <= self.difference.high:
            return "level"
        return "ours" if (self.difference.value > 0) == higher else "simple"


def simple_statistics(task: Task, name: str, data: Splits) -> tuple[Statistics, float]:
    """The statistics of the simple method, and its processor seconds."""
    began = time.process_time()
    found = task.method(data)
    seconds = time.process_time() - began
    return statistics([metric_of(name)], found, data.test)[0], seconds


def our_statistics(name: str, transducers: Sequence[Transducer], examples: Examples) -> Statistics:
    """The statistics of our runs; of several seeds their mean."""
    measure = metric_of(name)
    if isinstance(measure, Correlation):
        found = [statistics([measure], similarities(each, examples), examples)[0] for each in transducers]
    else:
        found = [each.evaluate(examples, [measure]).statistics[0] for each in transducers]
    return mean_of_seeds(found)


def similarities(transducer: Transducer, examples: Examples) -> list[Prediction]:
    """The cosines of the model's own vectors of the two sentences of each source."""
    pairs = [each.source for each in examples]
    return cosines(pairs, lambda texts: stacked(sentence_vectors(transducer, texts, "own", 64)))


def compared(simple: Statistics, seconds: float, ours: Statistics, effort: float, block: int) -> Row:
    """Both systems on the same resamples."""
    both = [mean_of_seeds([simple] * ours.seeds), ours]
    drawn = [draws(each, block) for each in both]
    one, other = (figure(each.score, sampled) for each, sampled in zip(both, drawn, strict=True))
    return Row(one, seconds, other, figure(ours.score - simple.score, drawn[1] - drawn[0]), effort)


def alone(simple: Statistics, seconds: float, block: int) -> Row:
    return Row(figure(simple.score, draws(simple, block)), seconds)


def beside_record(row: Row, figures: Sequence[Figure], effort: float | None, source: str) -> Row:
    """The row with the mean of our scores in a record. The two systems are not paired: their intervals add up as those
    of independent samples, so the interval of the difference is too wide rather than too narrow.
    """
    value = float(np.mean([each.value for each in figures]))
    low, high = (float(np.mean([getattr(each, end) for each in figures])) for end in ("low", "high"))
    simple = row.simple
    assert simple.low is not None
    assert simple.high is not None
    less = ((value - low) ** 2 + (simple.high - simple.value) ** 2) ** 0.5
    more = ((high - value) ** 2 + (simple.value - simple.low) ** 2) ** 0.5
    apart = value - simple.value
    return Row(
        simple,
        row.simple_seconds,
        Figure(value, low, high),
        Figure(apart, apart - less, apart + more),
        effort,
        source,
    )


def figure(value: float, sampled: Floats) -> Figure:
    interval: Interval = middle(sampled)
    return Figure(value, interval.low, interval.high)


def draws(found: Statistics, block: int) -> Floats:
    """The score [R] of each resample. If ``block`` > 1, blocks of neighbours are drawn (Politis and Romano 1992)."""
    if block == 1:
        return Resampling().bootstrap(found)
    windows = len(found.rows_NK)
    draw = np.random.default_rng(SEED)
    starts = draw.integers(windows, size=(RESAMPLES, -(-windows // block)))
    places = (starts[..., None] + np.arange(block)).reshape(RESAMPLES, -1)[:, :windows] % windows
    counts_RN = np.stack([np.bincount(row, minlength=windows) for row in places]).astype(float)
    return found.scores(counts_RN @ found.rows_NK)


def recorded(
    folder: Path, recipes: Iterable[str], name: str, examples: Examples
) -> tuple[list[Figure], float | None, str] | None:
    """The scores of the newest record of a recipe as shipped on these very examples, its training's seconds, and its
    name. None if there is no such record.
    """
    wanted, own = fingerprint_of_examples(examples).sha256, set(recipes)
    found = []
    for path in sorted(folder.glob("*.json")):
        record = Record.read(path)
        systems = [
            each
            for each in record.systems
            if each.examples.sha256 == wanted
            and name in each.scores
            and len(each.models) == 1
            and each.models[0].recipe in own
            and as_shipped(each.models[0])
        ]
        if systems:
            efforts = [each.models[0].effort for each in systems]
            minutes = [each.minutes for each in efforts if each is not None]
            seconds = 60 * float(np.mean(minutes)) if minutes else None
            found.append((record.date, [each.scores[name] for each in systems], seconds, path.stem))
    if not found:
        return None
    _, figures, seconds, stem = max(found, key=lambda each: each[0])
    return figures, seconds, stem
