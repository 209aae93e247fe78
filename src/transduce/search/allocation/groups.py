"""Diverse beam search: groups of a beam that avoid the words of earlier groups.

B sources, K hypotheses of each, K / G in each group, V vocabulary, C candidates of a group, J words already taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from transduce.core.errors import UserError
from transduce.search.allocation.best import BestContinuations
from transduce.search.base import Continuations, Stateless


@dataclass(frozen=True)
class Groups(Stateless):
    """Diverse beam search: the beam has ``groups`` of equal size, which are extended one after the other. At each step,
    a word costs ``penalty`` for every hypothesis of an earlier group that has just been extended with it (Vijayakumar
    et al. 2018, Hamming diversity).

    The penalty only decides which hypotheses of a group stay active. Totals do not contain it, so that hypotheses of
    all groups can be compared. An end counts if it is among the best of its group, and is never penalised. ``check``
    raises UserError if the size of the beam is not a multiple of ``groups``.
    """

    groups: int = 2
    penalty: float = 0.5

    def __post_init__(self) -> None:
        if self.groups < 1 or not 0 <= self.penalty < math.inf:
            raise UserError(
                f"groups = {self.groups}, penalty = {self.penalty}: at least one group, and a penalty of 0 or more"
            )

    def check(self, size: int) -> None:
        if size % self.groups:
            raise UserError(f"a beam of size = {size} does not divide into groups = {self.groups}: choose a multiple")

    def first(self, size: int) -> list[int]:
        return list(range(0, size, size // self.groups))

    def __call__(self, scores_BKV: Tensor, total_BK: Tensor, state: None = None) -> Continuations:
        B, K, V = scores_BKV.shape
        size = K // self.groups
        within_group = BestContinuations()
        taken_BJ, cost_BJ = total_BK.new_zeros(B, 0, dtype=torch.long), total_BK[:, :0]
        found: list[Continuations] = []
        for first in range(0, K, size):
            own_BKV = scores_BKV[:, first : first + size]
            penalised_BKV = _penalised(own_BKV, taken_BJ, cost_BJ) if found else own_BKV
            best = within_group(penalised_BKV, total_BK[:, first : first + size])
            taken_BJ = torch.cat([taken_BJ, best.token_BC.gather(1, best.live_BK)], 1)
            cost_BJ = torch.cat([cost_BJ, self.penalty * best.live_total_BK.isfinite()], 1)
            origin_BC = best.origin_BC + first
            score_BC = scores_BKV.view(B, -1).gather(1, origin_BC * V + best.token_BC)
            live_BK = best.live_BK + len(found) * origin_BC.shape[1]
            total_BC = total_BK.gather(1, origin_BC) + score_BC
            found.append(Continuations(total_BC, origin_BC, best.token_BC, best.ended_BC, live_BK))
        return Continuations(*(torch.cat([getattr(each, f.name) for each in found], 1) for f in fields(Continuations)))


def _penalised(scores_BKV: Tensor, taken_BJ: Tensor, cost_BJ: Tensor) -> Tensor:
    """Returns a copy of ``scores_BKV``, the scores of one group (its K is K / G), minus the costs of words that earlier
    groups took. Word ``taken_BJ[b, j]`` costs ``cost_BJ[b, j]`` in every row of source b. Costs of the same word add
    up.
    """
    shape = (-1, scores_BKV.shape[1], -1)
    place_BKJ, cost_BKJ = taken_BJ[:, None].expand(shape), cost_BJ[:, None].to(scores_BKV.dtype).expand(shape)
    return scores_BKV.scatter_add(2, place_BKJ, -cost_BKJ)
