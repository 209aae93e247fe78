"""Prefix beam search, and the probability of given outputs, by the compiled library.

One call replaces some fifty small operators for each frame or token. B sources, K outputs of each, N rows, S frames, T
tokens, V symbols.

Each function returns None if the library was not built, or if the frames are not on the CPU.
"""

from __future__ import annotations

from ctypes import CDLL

import torch
from torch import Tensor

from transduce.compute.library import DONE, optional_library
from transduce.core.types import EOS, Padded

FIRST = EOS + 1  # no output has an id below this one


def best_prefixes(frames: Padded, size: int, nbest: int, bonus: float) -> tuple[Tensor, Tensor, Tensor] | None:
    """The outputs of a prefix beam search without a language model: ids [B, K, S], their lengths [B, K], and their
    scores [B, K] in float64, the best first. If a source has fewer outputs than ``nbest``, the rest has the length -1.
    """
    functions = _functions(frames)
    if functions is None:
        return None
    log_probs_BSV, lengths_B = frames.values.double().contiguous(), frames.lengths.contiguous()
    B, S, V = log_probs_BSV.shape
    output_BKS, length_BK = torch.zeros(B, nbest, S, dtype=torch.long), torch.empty(B, nbest, dtype=torch.long)
    score_BK = torch.empty(B, nbest, dtype=torch.float64)
    written = (each.data_ptr() for each in (output_BKS, length_BK, score_BK))
    functions.transduce_prefix_beam(
        log_probs_BSV.data_ptr(), lengths_B.data_ptr(), B, S, V, FIRST, size, nbest, bonus, *written
    )
    return output_BKS, length_BK, score_BK


def token_log_probs(frames: Padded, target: Padded) -> tuple[Tensor, Tensor, Tensor, Tensor] | None:
    """The probabilities of outputs that end with EOS, for ``forcing.scored``. Returns the log-probability of each token
    [N, T], the highest log-probability of any token there [N, T], and the token that has it [N, T]. Also returns the
    log-probability of the output [N]. None also for unknown ids.
    """
    functions = _functions(frames)
    if functions is None:
        return None
    log_probs_NSV, frames_N = frames.values.double().contiguous(), frames.lengths.contiguous()
    targets_NT, lengths_N = target.values.contiguous(), target.lengths.contiguous()
    (N, S, V), T = log_probs_NSV.shape, targets_NT.shape[1]
    own_NT, best_NT = torch.zeros(2, N, T, dtype=torch.float64).unbind()
    choice_NT, total_N = torch.zeros(N, T, dtype=torch.long), torch.empty(N, dtype=torch.float64)
    read = log_probs_NSV.data_ptr(), frames_N.data_ptr(), N, S, V, FIRST, EOS, targets_NT.data_ptr()
    written = (each.data_ptr() for each in (own_NT, best_NT, choice_NT, total_N))
    found = functions.transduce_align(*read, lengths_N.data_ptr(), T, *written)
    return (own_NT, best_NT, choice_NT, total_N) if found == DONE else None


def _functions(frames: Padded) -> CDLL | None:
    return optional_library() if frames.values.device.type == "cpu" else None
