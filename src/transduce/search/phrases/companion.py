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
    """A second language model for a stack search. Its natural log-probabilities, times ``weight``, are added to a
    derivation's score.

    ``begun_B`` is its state, as a number, before the first output token for each source. ``device`` is the device of
    the sources: tensors for the model are made there.
    """

    model: Stepping
    weight: float
    begun_B: Ids
    device: torch.device

    @classmethod
    def of(cls, model: Stepping, weight: float, source: Padded) -> Companion:
        return cls(model, weight, model.start(source).cpu().numpy(), source.values.device)

    def step(self, state_N: Ids, token_N: Ids) -> tuple[Numbers, Ids]:
        """Two arrays [N]: the log-probability of each token after its state, times ``weight``; and the state after the
        token.
        """
        log_prob_N, after_N = self.model.step(
            torch.from_numpy(state_N).to(self.device), torch.from_numpy(token_N).to(self.device)
        )
        return self.weight * log_prob_N.cpu().numpy().astype(np.float64), after_N.cpu().numpy()

    def estimate(self, tokens_OP: Ids, length_O: Ids) -> Numbers:
        """[O]: for each option, the sum of the weighted log-probabilities of the first ``length_O`` tokens of its row.

        It is a guess: the tokens before the option are unknown, so each row starts from state 0 (in an n-gram model,
        the empty history).
        """
        state_O, total_O = np.zeros(len(length_O), np.int64), np.zeros(len(length_O))
        for place in range(int(length_O.max(initial=0))):
            step_O, state_O = self.step(state_O, tokens_OP[:, place])
            total_O += np.where(place < length_O, step_O, 0.0)
        return total_O
