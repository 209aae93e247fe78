"""Extends the hypotheses of a beam by the chosen candidates. B sources, K hypotheses of each, N = B * K rows, T tokens,
C candidate continuations of a source, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from transduce.compute.library import optional_library
from transduce.core.types import EOS
from transduce.search.base import Continuations

NEVER = float("-inf")


@dataclass(frozen=True)
class Histories:
    """The hypotheses of a beam: their totals [B, K] in float64, their tokens [B, K, T], and the log-probabilities
    [B, K, T] of the tokens in float64.
    """

    total_BK: Tensor
    tokens_BKT: Tensor
    log_probs_BKT: Tensor

    def of_length(self, length: int) -> Histories:
        """The last ``length`` tokens of each hypothesis. A shorter hypothesis has zeros before its tokens."""
        missing = length - self.tokens_BKT.shape[2]
        tokens_BKT, log_probs_BKT = (
            nn.functional.pad(each_BKT, (missing, 0)) if missing > 0 else each_BKT[:, :, -missing:]
            for each_BKT in (self.tokens_BKT, self.log_probs_BKT)
        )
        return Histories(self.total_BK, tokens_BKT, log_probs_BKT)


@dataclass(frozen=True)
class Extension:
    """The next beam, and a summary of the step for each source.

    ``histories`` are one token longer. ``rows_N`` are the rows of the old beam that they continue. ``log_prob_BC`` has
    the log-probability, in float64, of each candidate's token after its own hypothesis. ``news`` has a list for each
    source. It begins with the best total of the next beam. Then it has the total of each ended candidate, and minus
    infinity for the others.
    """

    histories: Histories
    rows_N: Tensor
    log_prob_BC: Tensor
    news: list[list[float]]


def extend(histories: Histories, candidates: Continuations, log_probs_NV: Tensor) -> Extension:
    """Extends ``histories`` by the chosen continuations, with the model's log-probabilities [N, V]."""
    return _compiled(histories, candidates, log_probs_NV) or by_operators(histories, candidates, log_probs_NV)


def by_operators(histories: Histories, candidates: Continuations, log_probs_NV: Tensor) -> Extension:
    """The same as ``extend``, on every device and for every type of numbers."""
    B, K = histories.total_BK.shape
    place_BC = candidates.origin_BC * log_probs_NV.shape[1] + candidates.token_BC
    log_prob_BC = log_probs_NV.view(B, -1).gather(1, place_BC).double()
    ended_BC = torch.where(candidates.ended_BC, candidates.total_BC, NEVER)
    live_total_BK = candidates.live_total_BK
    news = torch.cat([live_total_BK.amax(1, keepdim=True), ended_BC], 1).tolist()
    origin_BK, token_BK, log_prob_BK = (
        whole_BC.gather(1, candidates.live_BK) for whole_BC in (candidates.origin_BC, candidates.token_BC, log_prob_BC)
    )
    first_B1 = torch.arange(0, B * K, K, device=origin_BK.device)[:, None]
    rows_N = (first_B1 + origin_BK).reshape(-1)
    tokens_BKT, log_probs_BKT = (
        torch.cat([kept_BKT.flatten(0, 1).index_select(0, rows_N).view(B, K, -1), new_BK[:, :, None]], 2)
        for kept_BKT, new_BK in ((histories.tokens_BKT, token_BK), (histories.log_probs_BKT, log_prob_BK))
    )
    return Extension(Histories(live_total_BK, tokens_BKT, log_probs_BKT), rows_N, log_prob_BC, news)


def _compiled(histories: Histories, candidates: Continuations, log_probs_NV: Tensor) -> Extension | None:
    """The same by one call of the compiled library. None if it was not built, or for other numbers than float32 on the
    CPU.
    """
    functions = optional_library()
    if functions is None or log_probs_NV.dtype != torch.float32 or log_probs_NV.device.type != "cpu":
        return None
    (B, K, T), C = histories.tokens_BKT.shape, candidates.token_BC.shape[1]
    log_prob_BC, news = torch.empty(B, C, dtype=torch.float64), torch.empty(B, C + 1, dtype=torch.float64)
    total_BK, rows_N = torch.empty(B, K, dtype=torch.float64), torch.empty(B * K, dtype=torch.long)
    tokens_BKT = torch.empty(B, K, T + 1, dtype=torch.long)
    log_probs_BKT = torch.empty(B, K, T + 1, dtype=torch.float64)
    chosen = (candidates.total_BC, candidates.origin_BC, candidates.token_BC, candidates.ended_BC, candidates.live_BK)
    read = [each.contiguous() for each in (log_probs_NV, *chosen, histories.tokens_BKT, histories.log_probs_BKT)]
    written = (log_prob_BC, news, total_BK, rows_N, tokens_BKT, log_probs_BKT)
    addresses = [each.data_ptr() for each in (*read, *written)]
    functions.transduce_extend(*addresses[:6], B, K, C, log_probs_NV.shape[1], EOS, T, *addresses[6:])
    return Extension(Histories(total_BK, tokens_BKT, log_probs_BKT), rows_N, log_prob_BC, news.tolist())
