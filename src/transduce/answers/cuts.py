"""Outputs that a search ended at its limit, before the model ended them. Nothing here imports PyTorch."""

from __future__ import annotations

import math
from dataclasses import dataclass

from transduce.core.types import Derivation, Hypothesis

LIKELY = math.log(0.5)  # an end at the limit that is more probable than this is the model's own

RAISE = "raise search.max_length, or the length filter in search.filters"


def cut_at(found: Hypothesis | Derivation, limit: int | None) -> int | None:
    """The number of tokens, EOS included, at which a search ended a hypothesis. ``limit`` is the largest number that
    the search writes. None if the model ended the hypothesis: it is shorter, or its end was probable anyway.
    """
    if limit is None or isinstance(found, Derivation) or len(found.tokens) < limit or not found.token_log_probs:
        return None
    return limit if found.token_log_probs[-1] <= LIKELY else None


@dataclass
class Cuts:
    """Counts outputs, and the outputs that were cut at the limit of the search. It changes with each ``add``."""

    outputs: int = 0
    cut: int = 0
    shortest: int = 0  # the smallest limit at which one was cut

    def add(self, limit: int | None) -> None:
        """Counts an output, which was cut at ``limit`` tokens; None if it was not cut."""
        self.outputs += 1
        if limit is not None:
            self.shortest = min(limit, self.shortest) if self.cut else limit
            self.cut += 1

    def __str__(self) -> str:
        return (
            f"{self.cut:,} of {self.outputs:,} outputs ({100 * self.cut / self.outputs:.1f} %) are cut at the limit of "
            f"the search ({self.shortest} tokens): the model had not ended them; {RAISE}"
        )
