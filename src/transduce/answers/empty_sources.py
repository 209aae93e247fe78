"""The outputs of an empty source. Nothing here imports PyTorch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from transduce.types import EOS, Derivation, Hypothesis

IMPOSSIBLE = math.log(1e-6)  # log-probability relative to the empty output; below it an output counts as impossible


def possible(row: Any, found: Sequence[Hypothesis | Derivation]) -> Sequence[Hypothesis | Derivation]:
    """The hypotheses of the source ``row``, best first. If the source and the best output are empty, those whose
    log-probability is lower than the best one's by more than ``IMPOSSIBLE`` says are left out.

    A model that has no other output for an empty source gives all others hardly any probability. Length normalisation
    would rank the longest of them first.
    """
    best = found[0]
    if best.tokens != (EOS,) or list(row) != [EOS] or isinstance(best, Derivation):
        return found
    least = best.log_prob + IMPOSSIBLE
    return [each for each in found if isinstance(each, Hypothesis) and each.log_prob >= least]
