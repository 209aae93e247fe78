"""Whether a model's probabilities of tokens can be believed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from transduce.metrics.calibration import Calibration, Shares, calibration
from transduce.metrics.references import references
from transduce.transducer import Transducer
from transduce.types import Example


def calibrate(
    transducer: Transducer,
    examples: Sequence[Example],
    bins: int = 15,
    shares: Shares = "width",
    batch_size: int = 64,
) -> Calibration:
    """Of each token of the first references, teacher-forced: the model's probability of its first choice, and whether
    that is the token. The end counts where it is a choice: not that of labels, which are as many as the source says.

    Raises ValueError where a reference is missing, and where outputs have no probabilities: numbers.
    """
    confidence: list[float] = []
    right: list[bool] = []
    pairs = ((example.source, references(example)[0]) for example in examples)
    for output in transducer.score(pairs, batch_size):
        confidence += map(math.exp, output.best_log_probs)
        right += output.right
    return calibration(confidence, right, bins, shares)
