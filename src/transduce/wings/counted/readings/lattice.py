"""The lattice of a source's readings, and the steps of hypotheses through it.

B sources, K hypotheses of each, N = B * K rows, E arcs and Q nodes of the largest lattice, V target vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from transduce.core.tree import Shared
from transduce.core.types import BOS, EOS, PAD


@dataclass(frozen=True)
class Readings:
    """A random process that writes an output for each source: it starts at node 0 of the source and takes arc after
    arc. A silent arc writes no token.

    Arcs that write a token have ``start``, ``end``, ``token`` and ``chance`` [B, E]; nodes are numbered within their
    source. Each node [B, Q] has at most one ``silent`` arc, to ``silent_end``, and the chance ``ending`` to stop. At
    each node these chances sum to 1. They are float64. ``depth`` is the largest number of silent arcs that follow each
    other. Sources with fewer nodes or arcs are padded with chance 0.
    """

    start_BE: Tensor
    end_BE: Tensor
    token_BE: Tensor
    chance_BE: Tensor
    silent_BQ: Tensor  # the chance
    silent_end_BQ: Tensor
    ending_BQ: Tensor
    depth: int


@dataclass(frozen=True)
class JointState:
    """Probabilities given the tokens so far, in float64. ``next_NE``: that each arc is the next one that writes a
    token. ``ending_N``: that nothing more follows.

    All are 0 if no segmentation of the source that pruning kept writes these tokens.
    """

    next_NE: Tensor
    ending_N: Tensor
    readings: Shared[Readings]


def begin(readings: Readings) -> JointState:
    """The state before the first token, with one row for each source."""
    at_BKQ = torch.zeros_like(readings.ending_BQ)[:, None]
    at_BKQ[..., 0] = 1.0
    return _onward(at_BKQ, readings)


def written(token_N: Tensor, state: JointState) -> JointState:
    """The state after a token: the arcs that write it have been taken, and the probabilities are normalised again. For
    BOS, the same probabilities as before.
    """
    readings, begins_N = state.readings.value, token_N == BOS
    token_BKE = _hypotheses(readings.token_BE, len(token_N))
    (B, K, _), Q = token_BKE.shape, readings.ending_BQ.shape[1]
    taken_BKE = state.next_NE.view(token_BKE.shape) * (token_BKE == token_N.view(B, K, 1))
    at_BKQ = taken_BKE.new_zeros(B, K, Q)
    at_BKQ.scatter_add_(2, readings.end_BE[:, None].expand_as(token_BKE), taken_BKE)
    total_BK1 = at_BKQ.sum(2, keepdim=True)
    after = _onward(at_BKQ / torch.where(total_BK1 > 0, total_BK1, 1.0), readings)
    next_NE = torch.where(begins_N[:, None], state.next_NE, after.next_NE)
    return replace(after, next_NE=next_NE, ending_N=torch.where(begins_N, state.ending_N, after.ending_N))


def log_probs(state: JointState, vocabulary: int, escape: float) -> Tensor:
    """[N, V] in float64: log p(next token | tokens so far, source) of each row.

    The next token is drawn evenly from all except PAD and BOS with probability ``escape``, and always if no
    segmentation writes the tokens so far. PAD and BOS have minus infinity.
    """
    token_BKE = _hypotheses(state.readings.value.token_BE, len(state.ending_N))
    next_BKE = state.next_NE.view(token_BKE.shape)
    probability_BKV = next_BKE.new_zeros(*token_BKE.shape[:2], vocabulary)
    probability_NV = probability_BKV.scatter_add_(2, token_BKE, next_BKE).flatten(0, 1)
    probability_NV[:, EOS] += state.ending_N
    possible_N1 = probability_NV.sum(1, keepdim=True) > 0
    escaped_V = torch.full_like(probability_NV[0], 1 / (vocabulary - 2))
    escaped_V[[PAD, BOS]] = 0.0
    mixed_NV = (1 - escape) * probability_NV + escape * escaped_V
    return torch.where(possible_N1, mixed_NV, escaped_V).log()


def _onward(at_BKQ: Tensor, readings: Readings) -> JointState:
    """The state of hypotheses that are at each node with probability ``at_BKQ``: through silent arcs to the arcs that
    write next.
    """
    B, K, Q = at_BKQ.shape
    silent_B1Q, silent_end_BKQ = readings.silent_BQ[:, None], readings.silent_end_BQ[:, None].expand(B, K, Q)
    reached_BKQ = at_BKQ
    for _ in range(readings.depth):
        at_BKQ = torch.zeros_like(at_BKQ).scatter_add_(2, silent_end_BKQ, at_BKQ * silent_B1Q)
        reached_BKQ = reached_BKQ + at_BKQ
    start_BKE = _hypotheses(readings.start_BE, B * K)
    next_BKE = reached_BKQ.gather(2, start_BKE) * readings.chance_BE[:, None]
    ending_BK = (reached_BKQ * readings.ending_BQ[:, None]).sum(2)
    return JointState(next_BKE.flatten(0, 1), ending_BK.flatten(), Shared(readings))


def _hypotheses(values_BE: Tensor, N: int) -> Tensor:
    """[B, K, E] for N = B * K rows: a view that repeats each source's values for its hypotheses."""
    B, E = values_BE.shape
    return values_BE[:, None].expand(B, N // B, E)
