"""Reads tokens with a model, and gives log-probabilities of the next ones. N rows, T tokens, V vocabulary."""

from __future__ import annotations

import torch
from torch import Tensor

from transduce.compute import choice
from transduce.core import tree
from transduce.core.protocols import Autoregressive, S
from transduce.core.types import BOS, PAD, UNK, widened
from transduce.search.largest import highest

POSITIONS = 1024  # positions whose logits are in memory at a time, if only the logit of one token is needed for each
SMALLEST = 8  # the smallest capacity of a state's buffers, in positions
WIDE = (torch.float32, torch.float64)


def step(model: Autoregressive[S], token_N: Tensor, state: S) -> tuple[Tensor, S]:
    """Reads one token per row. Returns log-probabilities [N, V] of the next token, at least in float32, and the new
    state.
    """
    return read(model, token_N.unsqueeze(1), state)


def read(model: Autoregressive[S], tokens_NT: Tensor, state: S) -> tuple[Tensor, S]:
    """Reads the tokens [N, T]. Returns log-probabilities [N, V] of the token after the last one, at least in float32,
    and the new state.
    """
    logits_NV, state = read_logits(model, tokens_NT, state)
    return log_softmax(logits_NV), state


def read_logits(model: Autoregressive[S], tokens_NT: Tensor, state: S) -> tuple[Tensor, S]:
    """Like ``read``, but returns logits [N, V], which the search may change."""
    output, state = model.extend(tokens_NT, state)
    logits_NV = model.readout(tree.map(_last, output))
    return (logits_NV if logits_NV.dtype in WIDE else logits_NV.to(widened(logits_NV.dtype))), state


def _last(leaf: Tensor) -> Tensor:
    return leaf.select(1, -1)


def capacity(positions: int) -> int:
    """The capacity of buffers for this number of positions: the smallest sufficient number of 0, 8, 12, 16, 24, 32, 48,
    64, 96, 128 and so on.

    A search reserves the next capacity when it needs it, outside the model. Few capacities mean few shapes for a
    compiled step. They grow slowly because a beam copies its buffers whenever it reorders its hypotheses.
    """
    if positions <= SMALLEST:
        return SMALLEST if positions else 0
    double = 1 << (positions - 1).bit_length()
    return double * 3 // 4 if positions <= double * 3 // 4 else double


def log_probs(model: Autoregressive[S], output: object, token_N: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probabilities of one given token at each of N positions, from the model's features ``output`` of these
    positions.

    Returns three tensors [N]: the log-probability of the given token (float64), the log-probability of the model's
    first choice there (float64), and whether the two tokens are the same. The first choice is the token that greedy
    search writes, also when several tokens are equally probable.
    """
    own, best, right = [], [], []
    for first in range(0, len(token_N), POSITIONS):
        some_N = torch.arange(first, min(first + POSITIONS, len(token_N)), device=token_N.device)
        logits_NV = model.readout(tree.select(output, some_N))
        logits_NV = logits_NV.to(widened(logits_NV.dtype))
        normaliser_N = logits_NV.logsumexp(-1)
        own.append(logits_NV.gather(1, token_N[some_N, None])[:, 0].double() - normaliser_N)
        highest_N, choice_N = highest(forbid_specials(logits_NV))
        best.append(highest_N.double() - normaliser_N)
        right.append(choice_N == token_N[some_N])
    return torch.cat(own), torch.cat(best), torch.cat(right)


# ---------------------------------------------------------------- from logits to log-probabilities, in place


def log_softmax(logits_NV: Tensor) -> Tensor:
    """Log-probabilities [N, V], computed in the memory of the logits. This takes half the time of a separate
    normaliser, which stores every exponential.
    """
    return logits_NV if choice.log_softmax(logits_NV, 0) else torch.log_softmax(logits_NV, -1, out=logits_NV)


def allowed_log_softmax(logits_NV: Tensor) -> Tensor:
    """``forbid_specials(log_softmax(logits_NV), unknown=True)``, in one pass for few logits."""
    if choice.log_softmax(logits_NV, BOS + 1):
        return logits_NV
    return forbid_specials(log_softmax(logits_NV), unknown=True)


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
