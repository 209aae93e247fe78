"""A second language model beside a phrase-based model's own. N rows, O options, P tokens of the longest option."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from transduce.protocols import Stepping
from transduce.types import Padded

Ids = NDArray[np.int64]
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Companion:
    """A language model whose log-probabilities, times ``weight``, are added to a derivation's score. ``begun_B`` are
    its states before the first token of each source.
    """

    model: Stepping
    weight: float
    begun_B: Ids
    device: torch.device

    @classmethod
    def of(cls, model: Stepping, weight: float, source: Padded) -> Companion:
        return cls(model, weight, model.start(source).cpu().numpy(), source.values.device)

    def step(self, state_N: Ids, token_N: Ids) -> tuple[Numbers, Ids]:
        """[N]: the weighted log-probability of each token, and the state after it."""
        log_prob_N, after_N = self.model.step(
            torch.from_numpy(state_N).to(self.device), torch.from_numpy(token_N).to(self.device)
        )
        return self.weight * log_prob_N.cpu().numpy().astype(np.float64), after_N.cpu().numpy()

    def estimate(self, tokens_OP: Ids, length_O: Ids) -> Numbers:
        """[O]: a guess for the first ``length_O`` tokens of each row, without knowing the tokens before them."""
        state_O, total_O = np.zeros(len(length_O), np.int64), np.zeros(len(length_O))
        for place in range(int(length_O.max(initial=0))):
            step_O, state_O = self.step(state_O, tokens_OP[:, place])
            total_O += np.where(place < length_O, step_O, 0.0)
        return total_O
