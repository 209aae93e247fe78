"""Shallow fusion with a language model. N rows, T tokens, V vocabulary."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Generic

import torch
from torch import Tensor

from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import Autoregressive, S
from transduce.core.types import BOS, Padded
from transduce.search.base import loaded_model
from transduce.search.reading import capacity, read


@dataclass(frozen=True)
class LanguageModelFilter:
    """Adds ``weight`` times the log-probability of a language model to the score of each next token: shallow fusion
    (Gulcehre et al. 2015, eq. 7). The sum is not normalised again.

    ``language_model`` is the path of a trained run, or RUN+RUN, with the same target vocabulary; from Python also a
    model. It receives the same source, which a language model ignores. EOS at the search's ``max_length`` gets no such
    score.
    """

    language_model: Path | Autoregressive[object]
    weight: float = 0.3

    def __post_init__(self) -> None:
        if not 0 <= self.weight < math.inf:
            raise UserError(f"weight = {self.weight}: 0, which leaves the language model out, or more was expected")

    def start(self, source: Padded) -> Following[object] | None:
        if not self.weight:  # 0 times minus infinity is not a number
            return None
        model = loaded_model(self.language_model)
        rows, device = tree.rows(source), tree.leaves(source)[0].device
        next_NV, state = read(model, torch.full((rows, 1), BOS, device=device), model.start(source))
        return Following(state, next_NV, 1)

    def extend(self, tokens_NT: Tensor, state: Following[object] | None) -> Following[object] | None:
        if state is None or not tokens_NT.shape[1]:
            return state
        length = state.length + tokens_NT.shape[1]
        reserved = tree.reserve(state.state, capacity(length))
        next_NV, after = read(loaded_model(self.language_model), tokens_NT, reserved)
        return Following(after, next_NV, length)

    def __call__(self, scores_NV: Tensor, state: Following[object] | None) -> Tensor:
        if state is None:
            return scores_NV
        if scores_NV.shape[1] != state.next_NV.shape[1]:
            raise UserError(
                f"a language model of {state.next_NV.shape[1]} words cannot score {scores_NV.shape[1]} words: it must "
                "have the same target vocabulary, and a shortlist leaves words out, so do not use both"
            )
        return scores_NV.add_(state.next_NV, alpha=self.weight)


@dataclass(frozen=True)
class Following(Generic[S]):
    """A language model's ``state`` after the tokens of each row, and its log-probabilities [N, V] of the next token.
    ``length`` counts the tokens that it has read, with BOS.
    """

    state: S
    next_NV: Tensor
    length: int
