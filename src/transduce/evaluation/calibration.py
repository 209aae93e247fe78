"""Calibration: how well a model's token probabilities agree with how often its tokens are right."""

from __future__ import annotations

import math
from collections.abc import Sequence

from transduce.answers.answer import Output
from transduce.metrics.calibration import Calibration, Shares, calibration


def calibrate(forced: Sequence[Output], bins: int = 15, shares: Shares = "width") -> Calibration:
    """Compares the model's confidence in its first choice with how often this choice is the reference's token.

    ``forced`` are scored references (``Transducer.score``). An end token counts only if the model chooses where to end;
    a tagger, for example, does not. ``metrics.calibration`` explains ``bins`` and ``shares``. Raises UserError if there
    is no token.
    """
    confidence = [math.exp(best) for output in forced for best in output.best_log_probs]
    return calibration(confidence, [right for output in forced for right in output.right], bins, shares)
