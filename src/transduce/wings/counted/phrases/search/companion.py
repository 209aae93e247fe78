"""A second language model for a phrase-based model. N rows, O options, P tokens of the longest option."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
import torch
from numpy.typing import NDArray

from transduce.core.protocols import Autoregressive, Stepping, can
from transduce.core.types import Padded
from transduce.wings.counted.phrases.search.histories import EVERY, Histories

Ids = NDArray[np.int64]
Numbers = NDArray[np.float64]

NEURAL_SOURCES = 8  # a neural model has a state for each hypothesis of the last stacks, which takes memory


class Companion(Protocol):
    """A language model whose log-probabilities, times ``weight``, are added to a derivation's score.

    Its states are numbers. Equal states have equal probabilities of all later tokens. ``begun_B`` are the states before
    the first token of each source. ``step`` returns the unweighted log-probability of each token and the state after
    it, both [N]. ``merged`` returns equal numbers [N] for the states that recombination merges. If the model is
    ``approximate``, some merged states have different later probabilities. ``keep`` receives the states of a new stack.
    Later calls of ``step`` use only these states and the states of a few stacks before. ``estimate`` guesses the
    log-probability [O] of the first ``length_O`` tokens of each row without the tokens before them. ``own_O`` is the
    guess of the model's own language model.
    """

    @property
    def weight(self) -> float: ...

    @property
    def begun_B(self) -> Ids: ...

    @property
    def approximate(self) -> bool: ...

    def step(self, state_N: Ids, token_N: Ids) -> tuple[Numbers, Ids]: ...

    def merged(self, state_N: Ids) -> Ids: ...

    def keep(self, state_N: Ids) -> None: ...

    def estimate(self, tokens_OP: Ids, length_O: Ids, own_O: Numbers) -> Numbers: ...


@dataclass(frozen=True)
class Second:
    """The second language model of a search, and the ``weight`` of its log-probability. ``recombine_tokens`` is for a
    model without numbered states. The search merges hypotheses whose last tokens, of this number, are equal. -1 means
    all tokens.
    """

    model: Autoregressive[object]
    weight: float
    recombine_tokens: int = EVERY

    @property
    def sources(self) -> int:
        """The number of sources to search for together."""
        return 1024 if can(type(self.model), Stepping) else NEURAL_SOURCES

    def begin(self, source: Padded, tokens_OP: Ids, stacks: int) -> Companion:
        """The language model in its state at the beginning of each source. ``tokens_OP`` has all tokens that it will
        score. A phrase skips at most ``stacks`` stacks.
        """
        if can(type(self.model), Stepping):
            return Counted.begin(cast("Stepping", self.model), self.weight, source)
        return Neural.begin(self, source, tokens_OP, stacks)


@dataclass(frozen=True)
class Counted:
    """A language model whose own states are numbers, such as an n-gram model. Merging equal states is exact."""

    model: Stepping
    weight: float
    begun_B: Ids
    device: torch.device
    approximate: bool = False

    @classmethod
    def begin(cls, model: Stepping, weight: float, source: Padded) -> Counted:
        return cls(model, weight, model.start(source).cpu().numpy(), source.values.device)

    def step(self, state_N: Ids, token_N: Ids) -> tuple[Numbers, Ids]:
        log_prob_N, after_N = self.model.step(
            torch.from_numpy(state_N).to(self.device), torch.from_numpy(token_N).to(self.device)
        )
        return log_prob_N.cpu().numpy().astype(np.float64), after_N.cpu().numpy()

    def merged(self, state_N: Ids) -> Ids:
        return state_N

    def keep(self, state_N: Ids) -> None:
        pass

    def estimate(self, tokens_OP: Ids, length_O: Ids, own_O: Numbers) -> Numbers:
        state_O, total_O = np.zeros(len(length_O), np.int64), np.zeros(len(length_O))
        for place in range(int(length_O.max(initial=0))):
            step_O, state_O = self.step(state_O, tokens_OP[:, place])
            total_O += np.where(place < length_O, step_O, 0.0)
        return total_O


@dataclass(frozen=True)
class Neural:
    """Any other autoregressive model. A state is the number of a history, which has all tokens before.

    Histories are merged if their last ``recombine_tokens`` tokens are equal. If it is -1, only equal histories are
    merged. A neural model has no probability of a phrase without the tokens before it. So the estimate comes from the
    phrase-based model's own language model.
    """

    histories: Histories
    weight: float
    begun_B: Ids
    recombine_tokens: int

    @classmethod
    def begin(cls, second: Second, source: Padded, tokens_OP: Ids, stacks: int) -> Neural:
        histories = Histories(second.model, source, tokens_OP, stacks)
        return cls(histories, second.weight, np.arange(len(source.lengths)), second.recombine_tokens)

    @property
    def approximate(self) -> bool:
        return self.recombine_tokens != EVERY

    def step(self, state_N: Ids, token_N: Ids) -> tuple[Numbers, Ids]:
        return self.histories.log_prob(state_N, token_N), self.histories.follow(state_N, token_N)

    def merged(self, state_N: Ids) -> Ids:
        return self.histories.last(state_N, self.recombine_tokens) if self.approximate else state_N

    def keep(self, state_N: Ids) -> None:
        self.histories.keep(state_N)

    def estimate(self, tokens_OP: Ids, length_O: Ids, own_O: Numbers) -> Numbers:
        return own_O
