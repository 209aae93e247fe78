"""Metrics of music as chords (``transduce.chords``)."""

from __future__ import annotations

from collections.abc import Sequence

from transduce.chords import END
from transduce.errors import UserError
from transduce.metrics.perplexity import Perplexity
from transduce.metrics.statistics import references
from transduce.types import Example, Prediction


class NatsPerStep(Perplexity):
    """``nats_per_step``: the mean negative log-probability (natural logarithm) of a chord of the first reference, with
    the full stop that ends it.

    The log-probability of a chord is the sum over its pitches in the order of the reference, given all pitches before.
    So for sorted sets it is a lower bound of the set's. Boulanger-Lewandowski et al. 2012 report the same number with
    its sign changed. The end of a piece, if the model chooses it, is a further symbol of its last chord.
    """

    name = "nats_per_step"
    unit = "chord"

    def length(self, prediction: Prediction, example: Example) -> int:
        return references(example)[0].split().count(END)

    def score(self, total: Sequence[float]) -> float:
        surprise, chords = total
        if not chords:
            raise UserError(f"nats per step of no chords: each reference needs a chord that ends with {END!r}")
        return surprise / chords
