"""The probability of given outputs, summed over their alignments. N rows."""

from __future__ import annotations

import torch
from torch import Tensor

from transduce.core.errors import UserError
from transduce.core.protocols import Framewise
from transduce.core.types import BOS, UNK, Hypothesis, Padded
from transduce.search.forcing import shifted
from transduce.wings.ctc.lattice import NEVER, Lattice, least_frames_so_far
from transduce.wings.ctc.prefixes import Prefixes
from transduce.wings.ctc.search.compiled import token_log_probs


@torch.inference_mode()
def force(model: Framewise, source: Padded, target: Padded) -> list[Hypothesis]:
    """Scores given outputs: log p(target | source), summed over all alignments. ``target`` are ids [N, T]; each row
    ends with EOS. Returns one hypothesis per row, with ``score`` equal to its log-probability.
    """
    return scored(model.frames(source), target)


def scored(frames: Padded, target: Padded) -> list[Hypothesis]:
    """Hypotheses of given outputs, by the forward algorithm.

    The log-probability of a token is log p(outputs that start with the prefix and this token) - log p(outputs that
    start with the prefix). The log-probability of EOS is the rest of the total. If a token does not fit into the
    frames, it and all later tokens have minus infinity. They are never right, and neither is UNK.
    """
    outputs = Padded(target.values[:, :-1], target.lengths - 1)
    found = token_log_probs(frames, target)
    if found is None:
        found = by_operators(frames, target, outputs)
    each_NT, best_NT, first_NT, total_N = found
    columns = (target.values, each_NT, best_NT, first_NT, total_N, outputs.lengths)
    hypotheses = []
    for tokens, each, best, first, total, n in zip(*(column.tolist() for column in columns), strict=True):
        log_probs = (*each[:n], NEVER if total == NEVER else total - sum(each[:n]))
        # the log-probability of EOS is a difference of sums; without rounding it would equal the value of this choice
        choices = zip(tokens, first, log_probs, strict=False)
        right = tuple(token == choice and own > NEVER for token, choice, own in choices)
        chosen = tuple(own if is_right else other for own, is_right, other in zip(log_probs, right, best, strict=False))
        hypotheses.append(Hypothesis(tuple(tokens[: n + 1]), total, total, log_probs, chosen, right))
    return hypotheses


def by_operators(frames: Padded, target: Padded, outputs: Padded) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same as ``compiled.token_log_probs``, on every device. ``outputs`` are the targets without EOS."""
    every_NTV, _ = Prefixes.start(frames).extend(shifted(target))
    each_NT = every_NTV.gather(2, target.values[..., None])[..., 0]
    every_NTV[..., UNK] = NEVER  # no search writes it
    best_NT, first_NT = every_NTV.max(-1)
    each_NT[:, :-1].masked_fill_(least_frames_so_far(outputs) > frames.lengths[:, None], NEVER)
    total_N = Lattice.of(Padded(frames.values.double(), frames.lengths), outputs).log_likelihood
    return each_NT, best_NT, first_NT, total_N


def writable(frames: Padded, unknown: bool) -> Padded:
    """The frames with minus infinity for the symbols that no output has: BOS, EOS and, unless ``unknown`` is True, UNK.
    They serve to choose an output; ``scored`` tells its probability by the model's own frames.
    """
    log_probs_BSV = frames.values.clone()
    log_probs_BSV[..., BOS : UNK if unknown else UNK + 1] = NEVER
    return Padded(log_probs_BSV, frames.lengths)


def check_no_prefix(prefix: Padded | None) -> None:
    """Raises UserError if there is a prefix: a search among alignments cannot continue one."""
    if prefix is not None:
        raise UserError(
            "a search among alignments goes frame by frame and cannot go on from a prefix: set search.type to "
            '"greedy" or "beam", which go token by token'
        )
