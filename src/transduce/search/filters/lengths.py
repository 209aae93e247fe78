"""Limits on the length of outputs. B sources, N rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.types import EOS, Padded

ROUNDING = 1e-9  # in tokens, because 1.4 * 45 gives 62.99999999999999


@dataclass(frozen=True)
class Limits:
    """For each row [N]: the number of tokens written so far, and the least and greatest length of the output. The
    lengths count EOS.
    """

    written_N: Tensor
    least_N: Tensor
    most_N: Tensor


@dataclass(frozen=True)
class LengthLimit:
    """Outputs of at least ``minimum + minimum_ratio * S`` and at most ``maximum + maximum_ratio * S`` tokens, for a
    source of S tokens.

    S and the output's length count EOS. Limits are rounded down, and the upper limit is at least 1. An option that is
    not given counts as 0. If neither ``maximum`` nor ``maximum_ratio`` is given, there is no upper limit. If the limits
    contradict each other for a short source, the upper one holds. The limits of a sentence do not depend on its batch.
    Limits beyond the search's ``max_length`` have no effect. Raises UserError for limits that contradict each other for
    all sources above some length, and for a ratio if the source is not a sequence.
    """

    staggers: ClassVar[bool] = True

    minimum: int = 0
    maximum: int | None = None
    minimum_ratio: float = 0.0
    maximum_ratio: float | None = None

    def __post_init__(self) -> None:
        least, most = (self.minimum, self.minimum_ratio), (self.maximum or 0, self.maximum_ratio or 0.0)
        for name in ("minimum_ratio", "maximum_ratio"):
            if (ratio := getattr(self, name)) is not None and not 0 <= ratio < float("inf"):
                raise UserError(f"{name} = {ratio}: a share of the source's length, 0 or more, was expected")
        if self._limited and (most < least if most[1] == least[1] else most[1] < least[1]):
            raise UserError(
                f"minimum = {least[0]} and minimum_ratio = {least[1]} ask for more than maximum = {most[0]} and "
                f"maximum_ratio = {most[1]} allow"
            )

    @property
    def _limited(self) -> bool:
        return self.maximum is not None or self.maximum_ratio is not None

    def start(self, source: Padded) -> Limits:
        lengths_B = self._lengths(source)
        least_B = (self.minimum_ratio * lengths_B.double() + self.minimum + ROUNDING).long()
        most_B = self._most(lengths_B)
        return Limits(torch.zeros_like(least_B), least_B.minimum(most_B) if self._limited else least_B, most_B)

    def most(self, source: Padded, ceiling: int) -> Tensor:
        """The greatest length [B] that each output may have, EOS included, but not more than ``ceiling``."""
        lengths_B = self._lengths(source)
        return self._most(lengths_B).clamp(max=ceiling) if self._limited else torch.full_like(lengths_B, ceiling)

    def longest(self, source_length: int) -> float:
        """The greatest length of an output, EOS included, for a source of this length; infinite without a limit."""
        return float(self._most(torch.tensor([source_length]))) if self._limited else float("inf")

    def _lengths(self, source: Padded) -> Tensor:
        if isinstance(source, Padded):
            return source.lengths
        if self.minimum_ratio or self.maximum_ratio:
            raise UserError("this source has no length, so outputs have none relative to it: leave the ratios out")
        return torch.zeros(tree.rows(source), dtype=torch.long, device=tree.leaves(source)[0].device)

    def _most(self, lengths_B: Tensor) -> Tensor:
        most_B = ((self.maximum_ratio or 0.0) * lengths_B.double() + (self.maximum or 0) + ROUNDING).long()
        return most_B.clamp(min=1)

    def extend(self, tokens_NT: Tensor, state: Limits) -> Limits:
        return replace(state, written_N=state.written_N + tokens_NT.shape[1])

    def __call__(self, scores_NV: Tensor, state: Limits) -> Tensor:
        next_N, end_N = state.written_N + 1, scores_NV[:, EOS].clone()
        if self._limited:
            scores_NV.masked_fill_((next_N >= state.most_N)[:, None], float("-inf"))
        scores_NV[:, EOS] = end_N.masked_fill_(next_N < state.least_N, float("-inf"))
        return scores_NV
