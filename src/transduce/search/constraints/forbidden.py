"""Forbidden phrases. B sources, K hypotheses of each, N = B * K rows, V vocabulary, E edges."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from transduce.core import tree
from transduce.core.types import Padded
from transduce.search.constraints.automata import Automata, Borders
from transduce.search.filters.lengths import LengthLimit
from transduce_engine.phrases import BREAK


@dataclass(frozen=True)
class ForbiddenState:
    """The active states [N, Q] of the rows, the automata of their sources, the number of tokens written so far, and the
    greatest length [N] of each output.
    """

    active_NQ: Tensor
    automata: tree.Shared[Automata]
    written: int
    most_N: Tensor


@dataclass(frozen=True, eq=False)
class Forbidden:
    """Forbids every token that completes a forbidden phrase of its source, for all phrases and rows at once, on the
    model's device.

    A phrase matches whole words, so its last word is allowed while it may still continue. After "cat", only tokens that
    continue this word are allowed ("category"). The output must end at the length that ``limits`` and ``max_length``
    allow. So the token before that EOS must not complete a phrase either.
    """

    automata: Automata
    borders: Borders | None
    max_length: int
    limits: tuple[LengthLimit, ...] = ()

    def start(self, source: Padded) -> ForbiddenState:
        mosts = [each.most(source, self.max_length) for each in (LengthLimit(), *self.limits)]
        return ForbiddenState(self.automata.start(source), tree.Shared(self.automata), 0, torch.stack(mosts).amin(0))

    def extend(self, tokens_NT: Tensor, state: ForbiddenState) -> ForbiddenState:
        active_NQ = state.automata.value.extend(tokens_NT, state.active_NQ, self.borders)
        return replace(state, active_NQ=active_NQ, written=state.written + tokens_NT.shape[1])

    def __call__(self, scores_NV: Tensor, state: ForbiddenState) -> Tensor:
        automata = state.automata.value
        B, V = len(automata.token_BE), scores_NV.shape[1]
        finished_BE, waiting_BE = (
            some_BQ.gather(1, automata.goal_BE)[:, None] for some_BQ in (automata.finished_BQ, automata.waiting_BQ)
        )
        last_BK1 = (state.most_N == state.written + 2).view(B, -1, 1)
        leaving_BKE = automata.leaving(state.active_NQ.view(B, -1, automata.finished_BQ.shape[1]))
        leads_BKE = leaving_BKE & (finished_BE | (last_BK1 & waiting_BE))
        scores_BKV = scores_NV.view(B, -1, V)
        # edges without a token, and BREAK, are clamped to token 0 and have no effect on it
        named_BKE = leads_BKE & (automata.token_BE >= 0)[:, None]
        price_BKE = torch.zeros_like(leads_BKE, dtype=scores_NV.dtype).masked_fill_(named_BKE, float("-inf"))
        scores_BKV.scatter_add_(2, automata.token_BE.clamp(min=0)[:, None].expand(price_BKE.shape), price_BKE)
        if self.borders is not None:
            waits_BK = (leads_BKE & (automata.token_BE == BREAK)[:, None]).any(2)
            scores_BKV.masked_fill_(waits_BK[:, :, None] & self.borders.before_V, float("-inf"))
        return scores_NV
