"""Converts a model's logits to log-probabilities of the next token, in place. N rows, V vocabulary."""

from __future__ import annotations

import torch
from torch import Tensor

from transduce.compute.library import optional_library
from transduce.core.types import BOS, PAD, UNK

FEW = 65_536  # for more logits, PyTorch divides the rows among its threads


def log_softmax(logits_NV: Tensor) -> Tensor:
    """Log-probabilities [N, V], computed in the memory of the logits. This takes half the time of a separate
    normaliser, which stores every exponential.
    """
    return logits_NV if _compiled(logits_NV, 0) else torch.log_softmax(logits_NV, -1, out=logits_NV)


def allowed_log_softmax(logits_NV: Tensor) -> Tensor:
    """``forbid_specials(log_softmax(logits_NV), unknown=True)``, in one pass for few logits."""
    return logits_NV if _compiled(logits_NV, BOS + 1) else forbid_specials(log_softmax(logits_NV), unknown=True)


def forbid_specials(scores_NV: Tensor, unknown: bool = False) -> Tensor:
    """Gives PAD, BOS and, unless ``unknown`` is True, UNK minus infinity, in place, and returns the scores [N, V]. The
    other tokens are not renormalised, so they do not get the probability of these.
    """
    scores_NV.narrow(1, PAD, BOS + 1 - PAD).fill_(float("-inf"))  # half the time of an assignment
    return scores_NV if unknown else forbid_unknown(scores_NV)


def forbid_unknown(scores_NV: Tensor, forced_N: Tensor | None = None) -> Tensor:
    """Gives UNK minus infinity, in place, and returns the scores [N, V]: no search writes it. A row whose ``forced_N``
    is UNK keeps it, because a prefix asks for it.
    """
    if forced_N is None:
        scores_NV.narrow(1, UNK, 1).fill_(float("-inf"))
    else:
        scores_NV[:, UNK].masked_fill_(forced_N != UNK, float("-inf"))
    return scores_NV


def _compiled(logits_NV: Tensor, first: int) -> bool:
    """Converts the logits to log-probabilities by one call of the compiled library, with minus infinity for the tokens
    before ``first``. The call does not wake PyTorch's other threads, which would wait actively for a while and slow the
    engine's own threads.

    Returns True if it has done so. It is a no-op and returns False if the library was not built, for many logits, and
    for other numbers than float32 on the CPU.
    """
    functions = optional_library()
    usual = logits_NV.dtype == torch.float32 and logits_NV.device.type == "cpu" and logits_NV.is_contiguous()
    if functions is None or not usual or logits_NV.numel() > FEW:
        return False
    functions.transduce_log_softmax(logits_NV.data_ptr(), *logits_NV.shape, first)
    return True
