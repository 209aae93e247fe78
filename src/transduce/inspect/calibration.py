"""Whether a model's probabilities of tokens can be believed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from transduce.metrics.calibration import Calibration, Shares, calibration
from transduce.outputs import Output


def calibrate(forced: Sequence[Output], bins: int = 15, shares: Shares = "width") -> Calibration:
    """Of each token of references that were given (``Transducer.score``): the model's probability of its first choice,
    and whether that is the token. The end counts where it is a choice: not that of labels, which are as many as the
    source says.

    Raises ValueError where there is no token.
    """
    confidence = [math.exp(best) for output in forced for best in output.best_log_probs]
    return calibration(confidence, [right for output in forced for right in output.right], bins, shares)
