"""Scores by the length of the source: where a model that holds all of it in one vector gives way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Literal

from transduce.metrics.base import evaluate
from transduce.types import Example, Metric, Prediction

Unit = Literal["words", "characters"]


@dataclass(frozen=True)
class LengthBin:
    """The examples whose sources have ``shortest`` to ``longest`` words or characters, ``mean`` of them on average."""

    shortest: int
    longest: int
    mean: float
    examples: int
    scores: dict[str, float]


def by_length(
    metrics: Sequence[Metric], predictions: Sequence[Prediction], examples: Sequence[Example], bins: int = 6
) -> tuple[Unit, list[LengthBin]]:
    """The scores of the shortest sources, the next longer ones, ..., in at most ``bins`` groups of about equal size.

    Lengths are of the raw text, in words, or in characters where no source has two words: they are the same for every
    model, whatever its units.
    """
    unit: Unit = "words" if any(len(example.source.split()) > 1 for example in examples) else "characters"
    lengths = [len(example.source.split() if unit == "words" else example.source) for example in examples]
    found = []
    for shortest, longest in _bounds(lengths, bins):
        rows = [row for row, length in enumerate(lengths) if shortest <= length <= longest]
        scores = evaluate(metrics, [predictions[row] for row in rows], [examples[row] for row in rows])
        found.append(LengthBin(shortest, longest, mean(lengths[row] for row in rows), len(rows), scores))
    return unit, found


def _bounds(lengths: Sequence[int], bins: int) -> list[tuple[int, int]]:
    """Shortest and longest of each group: a group is closed by the length that fills its share of what is left."""
    counts = sorted(Counter(lengths).items())
    bounds: list[tuple[int, int]] = []
    left, shortest, filled = len(lengths), counts[0][0] if counts else 0, 0
    for place, (length, count) in enumerate(counts):
        filled += count
        last = place == len(counts) - 1
        if last or filled * (bins - len(bounds)) >= left:
            bounds.append((shortest, length))
            left, filled = left - filled, 0
            shortest = length if last else counts[place + 1][0]
    return bounds
