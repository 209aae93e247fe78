"""Required phrases: dynamic beam allocation.

B sources, K hypotheses of each, N = B * K rows, V vocabulary, Q states. P tokens to try with each hypothesis, M
candidate continuations of a source, G = ``tokens`` + 1 banks.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from transduce.core import tree
from transduce.core.types import EOS, Padded
from transduce.search.base import Continuations
from transduce.search.constraints.automata import Automata, Borders
from transduce.search.largest import largest

MISSING = 1e6  # penalty of an early end for each missing token, so that outputs with more phrase tokens rank first


@dataclass(frozen=True)
class RequiredState:
    """The active states [N, Q] of the hypotheses, and the automata of their sources."""

    active_NQ: Tensor
    automata: tree.Shared[Automata]


@dataclass(frozen=True, eq=False)
class Banks:
    """Dynamic beam allocation (Post and Vilar 2018; for all sources at once, Hu et al. 2019).

    Candidates are grouped into banks by how many phrase tokens they contain. The beam is divided among the banks. In
    each turn, the next best candidate of each bank gets a place, and banks with more tokens go first. Each hypothesis
    is extended with its K + 1 best tokens, and also with the next tokens of its phrases. An output may end only when it
    contains all phrases. If no other continuation is left, as at the last step, an output may end without them. Then
    its score loses ``MISSING`` for each missing token. ``tokens`` is the largest number of phrase tokens of a source.
    """

    automata: Automata
    borders: Borders | None
    tokens: int

    def check(self, size: int) -> None:
        """A no-op, because any size is possible. A smaller beam writes phrases earlier."""

    def first(self, size: int) -> list[int]:
        return [0]

    def start(self, source: Padded) -> RequiredState:
        return RequiredState(self.automata.start(source), tree.Shared(self.automata))

    def extend(self, tokens_NT: Tensor, state: RequiredState) -> RequiredState:
        return RequiredState(state.automata.value.extend(tokens_NT, state.active_NQ, self.borders), state.automata)

    def __call__(self, scores_BKV: Tensor, total_BK: Tensor, state: RequiredState) -> Continuations:
        automata = state.automata.value
        B, K, _ = scores_BKV.shape
        active_BKQ = state.active_NQ.view(B, K, -1)
        score_BKM, token_BKM = _candidates(scores_BKV, automata, active_BKQ)
        total_BM, token_BM = (total_BK[:, :, None] + score_BKM).flatten(1), token_BKM.flatten(1)
        origin_BM = torch.arange(K, device=total_BM.device).repeat_interleave(score_BKM.shape[2]).expand(B, -1)
        before_BMQ = active_BKQ.gather(1, origin_BM[:, :, None].expand(-1, -1, active_BKQ.shape[2]))
        bank_BM = automata.written_tokens(automata.step(before_BMQ, token_BM, self.borders))

        ends_BM, missing_BM = token_BM == EOS, automata.tokens_B[:, None] - bank_BM
        goes_on_B = (total_BM.isfinite() & ~ends_BM).any(1)
        early_BM = ends_BM & (missing_BM > 0)
        total_BM = torch.where(early_BM, total_BM - MISSING * missing_BM, total_BM)
        total_BM = total_BM.masked_fill(early_BM & goes_on_B[:, None], float("-inf"))

        chosen_BK = self._divided(total_BM, bank_BM, K)
        chosen_BM = torch.zeros_like(ends_BM).scatter_(1, chosen_BK, True)
        live_BK = self._divided(total_BM.masked_fill(ends_BM, float("-inf")), bank_BM, K)
        return Continuations(total_BM, origin_BM, token_BM, ends_BM & chosen_BM & total_BM.isfinite(), live_BK)

    def _divided(self, total_BM: Tensor, bank_BM: Tensor, places: int) -> Tensor:
        """The indices [B, K] of the candidates that get a place, where K = ``places``. The banks take turns (see the
        class). If there are too few candidates, the rest of the places go to candidates with a total of minus infinity.
        """
        order_BM = total_BM.argsort(dim=1, descending=True, stable=True)
        bank_BM = bank_BM.gather(1, order_BM)
        member_BMG = bank_BM[:, :, None] == torch.arange(self.tokens + 1, device=bank_BM.device)
        rank_BM = member_BMG.cumsum(1).gather(2, bank_BM[:, :, None])[:, :, 0]
        turn_BM = rank_BM * (self.tokens + 1) - bank_BM
        turn_BM = turn_BM.masked_fill(~total_BM.gather(1, order_BM).isfinite(), torch.iinfo(turn_BM.dtype).max)
        return order_BM.gather(1, turn_BM.topk(places, largest=False, sorted=True).indices)


def _candidates(scores_BKV: Tensor, automata: Automata, active_BKQ: Tensor) -> tuple[Tensor, Tensor]:
    """Scores and tokens [B, K, K + 1 + P]. The first K + 1 are the best tokens of each hypothesis (all, if there are
    fewer). The last P are the tokens that may come next in its phrases. If one of these P cannot come next, or is
    already among the tokens before it, its score is minus infinity.
    """
    value_BKC, token_BKC = largest(scores_BKV, scores_BKV.shape[1] + 1)
    token_BP = automata.token_BE.gather(1, automata.own_BP)
    goal_BP = automata.goal_BE.gather(1, automata.own_BP)
    finish_BKP = automata.phrase_BQ.gather(1, goal_BP)[:, None].expand(-1, active_BKQ.shape[1], -1)
    next_BKP = automata.leaving(active_BKQ).gather(2, automata.own_BP[:, None].expand(finish_BKP.shape))
    next_BKP = next_BKP & (token_BP >= 0)[:, None] & ~active_BKQ.gather(2, finish_BKP)
    token_BKP = token_BP.clamp(min=0)[:, None].expand(finish_BKP.shape)
    known_BKP = (token_BKP[:, :, :, None] == token_BKC[:, :, None, :]).any(3)
    same_BPP = (token_BP[:, :, None] == token_BP[:, None, :]).tril(-1)
    known_BKP |= (same_BPP[:, None] & next_BKP[:, :, None, :]).any(3)
    value_BKP = scores_BKV.gather(2, token_BKP).masked_fill(known_BKP | ~next_BKP, float("-inf"))
    return torch.cat([value_BKC, value_BKP], 2), torch.cat([token_BKC, token_BKP], 2)
