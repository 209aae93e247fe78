"""How finished hypotheses of unequal length are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Ranking(Protocol):
    """A score of a log-probability and a length in tokens, given the source's (EOS counted in both; 0 where it has
    none).

    It must rise with the log-probability, and with the length rise throughout or fall throughout: a beam stops where
    neither the shortest nor the longest continuation could win.
    """

    def __call__(self, log_prob: float, length: int, source_length: int) -> float: ...


@dataclass(frozen=True)
class LogProbability:
    """As the model has it: favours the short."""

    def __call__(self, log_prob: float, length: int, source_length: int = 0) -> float:
        return log_prob


@dataclass(frozen=True)
class Average:
    """log p(y) / |y|: the mean over tokens (Cho et al. 2014)."""

    def __call__(self, log_prob: float, length: int, source_length: int = 0) -> float:
        return log_prob / length


@dataclass(frozen=True)
class Wu:
    """log p(y) / ((5 + |y|) / 6)^alpha: Wu et al. 2016, eq. 14."""

    alpha: float = 0.6

    def __call__(self, log_prob: float, length: int, source_length: int = 0) -> float:
        penalty: float = ((5 + length) / 6) ** self.alpha
        return log_prob / penalty
