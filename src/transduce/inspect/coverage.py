"""How much of a source an output has read. T target tokens, S columns of the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transduce.inspect.alignments import read
from transduce.outputs import Output
from transduce.transducer import Transducer

LEAST = 1e-10  # attention to a column that has got none: its logarithm must be a number


@dataclass(frozen=True)
class Coverage:
    """cp(x, y) = sum over s of log min(1, sum over t of a_ts): Wu et al. 2016, eq. 14, without its weight beta.

    a_ts is the attention with which the model of ``transducer`` writes y, teacher-forced once, averaged over its heads
    and layers, or that of ``attention`` by name. A feature of ``reranking.loglinear``: 0 where every part of a source
    has been read as much as one token reads, else below. ValueError where the model has no attention to the source.
    """

    transducer: Transducer
    batch_size: int = 64
    attention: str | None = None

    def __call__(self, pairs: Sequence[tuple[str, Output]]) -> list[float]:
        answers = ((source, [output]) for source, output in pairs)
        readings = (found[0] for found in read(self.transducer, answers, self.attention, self.batch_size))
        return [float(each.weights_TS.sum(0).clamp(LEAST, 1.0).log().sum()) for each in readings]
