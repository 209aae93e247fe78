"""The choice of tokens in a search, each step in one call of the compiled library instead of a dozen small operators.

compute/native/choice.h describes the functions. They serve float32 on the CPU. If the library was not built, or for
other tensors, they do nothing and say so, and the callers in search/ use PyTorch's operators.

B sources, K hypotheses of each, N = B * K rows, T tokens, V vocabulary, C candidate continuations of a source.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from transduce.compute.library import library, optional_library
from transduce.core.types import EOS

FEW = 65_536  # for more logits, PyTorch divides the rows among its threads


class Extension(NamedTuple):
    """The hypotheses of the next beam: their totals, and their tokens and log-probabilities, which are one token
    longer. Row n continues row ``rows_N[n]`` of the old beam.

    ``log_prob_BC`` is the log-probability of each candidate's token after its own hypothesis. ``summary_BC`` [B, 1 + C]
    has first the best total of the next beam, and then the total of each candidate that ends, minus infinity for the
    others. All but tokens and rows are in float64.
    """

    total_BK: Tensor
    tokens_BKT: Tensor
    log_probs_BKT: Tensor
    rows_N: Tensor
    log_prob_BC: Tensor
    summary_BC: Tensor


def fits(x: Tensor) -> bool:
    """True if the library was built and supports this tensor."""
    return x.dtype == torch.float32 and x.device.type == "cpu" and optional_library() is not None


def log_softmax(logits_NV: Tensor, first: int) -> bool:
    """Converts the logits to log-probabilities in place, with minus infinity for the tokens before ``first``. The call
    does not wake PyTorch's other threads, which would wait actively for a while and slow the engine's own threads.

    Returns False, and does nothing, for tensors that do not fit and for many logits.
    """
    if logits_NV.numel() > FEW or not logits_NV.is_contiguous() or not fits(logits_NV):
        return False
    library().transduce_log_softmax(logits_NV.data_ptr(), *logits_NV.shape, first)
    return True


def highest(logits_NV: Tensor, forced_N: Tensor | None, first: int) -> tuple[Tensor, Tensor] | None:
    """The most probable token [N] of each row from ``first`` on, or its forced token if this is at least ``first``; and
    the token's log-probability [N] among all tokens, in float64.
    """
    if not fits(logits_NV):
        return None
    logits_NV, forced = logits_NV.contiguous(), None if forced_N is None else forced_N.contiguous().data_ptr()
    N, V = logits_NV.shape
    token_N, log_prob_N = torch.empty(N, dtype=torch.long), torch.empty(N, dtype=torch.float64)
    library().transduce_highest(logits_NV.data_ptr(), forced, N, V, first, token_N.data_ptr(), log_prob_N.data_ptr())
    return token_N, log_prob_N


def choose(scores_BKV: Tensor, total_BK: Tensor) -> tuple[Tensor, ...] | None:
    """The fields of ``search.base.Continuations`` that ``BestContinuations`` chooses. If totals are equal, it takes the
    first. For one source it takes a third of the operators' time.
    """
    if not fits(scores_BKV):
        return None
    B, K, V = scores_BKV.shape
    C = min(2 * K, K * min(K + 1, V))
    scores_BKV, total_BK = scores_BKV.contiguous(), total_BK.contiguous()
    total_BC, ended_BC = torch.empty(B, C, dtype=torch.float64), torch.empty(B, C, dtype=torch.bool)
    origin_BC, token_BC = torch.empty(B, C, dtype=torch.long), torch.empty(B, C, dtype=torch.long)
    live_BK = torch.empty(B, K, dtype=torch.long)
    written = total_BC, origin_BC, token_BC, ended_BC, live_BK
    addresses = (each.data_ptr() for each in written)
    library().transduce_choose(scores_BKV.data_ptr(), total_BK.data_ptr(), B, K, V, EOS, *addresses)
    return written


def extend(
    tokens_BKT: Tensor, log_probs_BKT: Tensor, candidates: tuple[Tensor, ...], log_probs_NV: Tensor
) -> Extension | None:
    """The next beam, for ``candidates`` that are the fields of ``search.base.Continuations``."""
    if not fits(log_probs_NV):
        return None
    (B, K, T), C, V = tokens_BKT.shape, candidates[0].shape[1], log_probs_NV.shape[1]
    total_BK, rows_N = torch.empty(B, K, dtype=torch.float64), torch.empty(B * K, dtype=torch.long)
    longer_BKT, log_probs_longer_BKT = (torch.empty(B, K, T + 1, dtype=each) for each in (torch.long, torch.float64))
    log_prob_BC, summary_BC = (torch.empty(B, each, dtype=torch.float64) for each in (C, C + 1))
    read = [each.contiguous() for each in (log_probs_NV, *candidates, tokens_BKT, log_probs_BKT)]
    written = (log_prob_BC, summary_BC, total_BK, rows_N, longer_BKT, log_probs_longer_BKT)
    addresses = [each.data_ptr() for each in (*read, *written)]
    library().transduce_extend(*addresses[:6], B, K, C, V, EOS, T, *addresses[6:])
    return Extension(total_BK, longer_BKT, log_probs_longer_BKT, rows_N, log_prob_BC, summary_BC)
