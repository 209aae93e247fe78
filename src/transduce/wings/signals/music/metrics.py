"""Metrics of music as chords (``transduce.wings.signals.music.chords``)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from transduce.core.types import Example, Prediction
from transduce.metrics.perplexity import Perplexity
from transduce.metrics.statistics import references
from transduce.wings.signals.music.chords import END


class NatsPerStep(Perplexity):
    """``nats_per_step``: the mean negative log-probability (natural logarithm) of a chord of the first reference, with
    the full stop that ends it.

    The log-probability of a chord is the sum over its pitches in the order of the reference, given all pitches before.
    So for sorted sets it is a lower bound of the set's. Boulanger-Lewandowski et al. 2012 report the same number with
    its sign changed. The end of a piece, if the model chooses it, is a further symbol of its last chord. The score is
    NaN without any chord.
    """

    name = "nats_per_step"
    unit = "chord"

    def length(self, prediction: Prediction, example: Example) -> int:
        return references(example)[0].split().count(END)

    def misfit(self, references: Sequence[str]) -> str:
        if any(END in text.split() for text in references):
            return ""
        return f"none of them has a chord that ends with {END!r}; measure perplexity"

    def score(self, total: Sequence[float]) -> float:
        surprise, chords = total
        return surprise / chords if chords else math.nan


class KeptMelody:
    """``kept_melody``: how many notes of the source are the first pitch of the output's chord at the same step, in
    percent. The source is a melody, such as "67 69 - 71". References are not read.

    A silence counts as a note. A step that the output lacks is wrong, and so is each chord after the melody's end.
    """

    name = "kept_melody"
    signature = "unit:step"
    higher_is_better = True
    needs_forcing = False

    def statistics(self, prediction: Prediction, example: Example) -> Sequence[float]:
        melody = example.source.split()
        sung = [chord.split()[:1] for chord in prediction.text.split(END)[:-1]]
        right = sum([note] == first for note, first in zip(melody, sung, strict=False))
        return float(right), float(max(len(melody), len(sung)))

    def score(self, total: Sequence[float]) -> float:
        right, steps = total
        return 100.0 * right / steps if steps else math.nan
