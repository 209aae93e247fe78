"""Coverage: how much of a source an output has read. T target tokens, S columns of the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transduce.inspect.alignments import read
from transduce.outputs import Output
from transduce.transducer import Transducer

LEAST = 1e-10  # smallest attention to a column, so that its logarithm is finite


@dataclass(frozen=True)
class Coverage:
    """cp(x, y) = sum over s of log min(1, sum over t of a_ts): Wu et al. 2016, eq. 14, without its weight beta.

    a_ts is the attention while the ``transducer``'s model writes y, teacher-forced once. It is averaged over heads and
    layers, or it is the attention named ``attention``. This is a feature for ``reranking.loglinear``: 0 if every source
    column got a total weight of at least 1, otherwise negative. Raises ValueError if the model has no attention to the
    source.
    """

    transducer: Transducer
    batch_size: int = 64
    attention: str | None = None

    def __call__(self, pairs: Sequence[tuple[str, Output]]) -> list[float]:
        answers = ((source, [output]) for source, output in pairs)
        readings = (found[0] for found in read(self.transducer, answers, self.attention, self.batch_size))
        return [float(each.weights_TS.sum(0).clamp(LEAST, 1.0).log().sum()) for each in readings]
