"""Rankings: scores that compare finished hypotheses of different lengths. ``base.Ranking`` is their contract."""

from __future__ import annotations

from dataclasses import dataclass

from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.types import Padded

STRONGEST = 10  # the largest alpha; long outputs overflow if it is a few times larger


@dataclass(frozen=True)
class LogProbability:
    """A ranking by log-probability, without length normalisation. It prefers short outputs."""

    def __call__(self, log_prob: float, length: int, source_length: int = 0) -> float:
        return log_prob


@dataclass(frozen=True)
class Average:
    """A ranking by the mean log-probability of a token: log p(y) / |y| (Cho et al. 2014). |y| counts EOS."""

    def __call__(self, log_prob: float, length: int, source_length: int = 0) -> float:
        return log_prob / length


@dataclass(frozen=True)
class Wu:
    """A ranking with length normalisation: log p(y) / ((5 + |y|) / 6)^alpha (Wu et al. 2016, eq. 14). |y| counts EOS.
    An ``alpha`` of 0 does not normalise.
    """

    alpha: float = 0.6

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= STRONGEST:
            raise UserError(
                f"alpha = {self.alpha}: a number from 0, which leaves log p(y) as it is, to {STRONGEST} was expected"
            )

    def __call__(self, log_prob: float, length: int, source_length: int = 0) -> float:
        penalty: float = ((5 + length) / 6) ** self.alpha
        return log_prob / penalty


@dataclass(frozen=True)
class Brevity:
    """A ranking by the mean log-probability of a token, with BLEU's brevity penalty in log form (Yang et al. 2018):
    log p(y) / |y| + min(0, 1 - L / |y|).

    L = ``length_ratio`` * |x| is the expected length of the output. Both |y| and |x| count EOS. ``transduce data``
    reports the ratio of the training pairs.
    """

    length_ratio: float = 1.0

    def __post_init__(self) -> None:
        check_ratio(self.length_ratio)

    def __call__(self, log_prob: float, length: int, source_length: int = 0) -> float:
        return log_prob / length + min(0.0, 1 - self.length_ratio * source_length / length)


@dataclass(frozen=True)
class BoundedReward:
    """A ranking that adds a ``reward`` r for each token up to the expected length L: log p(y) + r min(|y|, L) (Huang et
    al. 2017, section 3).

    L = ``length_ratio`` * |x|. Both |y| and |x| count EOS. ``transduce data`` reports the ratio of the training pairs.
    """

    reward: float = 1.0
    length_ratio: float = 1.0

    def __post_init__(self) -> None:
        check_ratio(self.length_ratio)
        if not 0 <= self.reward < float("inf"):
            raise UserError(f"reward = {self.reward}: 0 or more for each token was expected")

    def __call__(self, log_prob: float, length: int, source_length: int = 0) -> float:
        return log_prob + self.reward * min(length, self.length_ratio * source_length)


def check_ratio(length_ratio: float) -> None:
    if not 0 < length_ratio < float("inf"):
        raise UserError(
            f"length_ratio = {length_ratio}: the tokens of an output for each of its source, more than 0, were expected"
        )


def source_lengths(source: Padded) -> list[int]:
    """The length of each source in tokens (EOS included) or steps; 0 for a source that is not ``Padded``."""
    return source.lengths.tolist() if isinstance(source, Padded) else [0] * tree.rows(source)
