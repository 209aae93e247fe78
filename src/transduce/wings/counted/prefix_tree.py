"""A list of words as a tree of prefixes. W words, L tokens of a word with EOS, Q nodes, E edges, N rows, M edges of N
nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transduce.core.types import PAD

Ids = NDArray[np.int64]
NONE = -1  # the node after tokens that no word begins with


@dataclass(frozen=True)
class PrefixTree:
    """The prefixes of the words of a list. Edge e leads to node e + 1, and node 0 is the root, so E is Q - 1. Nodes are
    in the order of their length, and the edges of a node in the order of their tokens.

    ``first_Q`` [Q + 1] is the first edge of each node, and then E: node q has the edges first_Q[q] to first_Q[q + 1]
    - 1. ``token_E`` is the token of each edge. ``share_E`` is log p(token | prefix): the logarithm of the counts of the
    words below the edge divided by the counts of the words below its start. EOS has an edge too, after each word.
    """

    first_Q: Tensor
    token_E: Tensor
    share_E: Tensor

    @staticmethod
    def of(words: Sequence[Sequence[int]], counts: Sequence[float]) -> PrefixTree:
        """The tree of at least one word. Each word is given by its ids, which end with EOS, and has a positive count.
        The counts of equal words add up.
        """
        known = sorted((tuple(ids), count) for ids, count in zip(words, counts, strict=True))
        longest = max(len(ids) for ids, _ in known)
        token_WL = np.array([ids + (PAD,) * (longest - len(ids)) for ids, _ in known], np.int64)
        return _joined(token_WL, np.array([count for _, count in known], np.float64))

    def parents(self) -> Tensor:
        """[E]: the node where each edge starts."""
        return torch.repeat_interleave(self.first_Q.diff())

    def edges(self, node_N: Tensor) -> tuple[Tensor, Tensor]:
        """All edges of these nodes, [M], and for each the index of its node in ``node_N``, [M]. NONE has no edges."""
        real_N = node_N.clamp(min=0)
        first_N = self.first_Q[real_N]
        count_N = (self.first_Q[real_N + 1] - first_N) * (node_N != NONE)
        row_M = torch.repeat_interleave(count_N)
        offset_M = torch.arange(len(row_M), device=row_M.device) - (count_N.cumsum(0) - count_N)[row_M]
        return first_N[row_M] + offset_M, row_M

    def after(self, token_N: Tensor, node_N: Tensor) -> Tensor:
        """[N]: the node to which the edge of each token leads, or NONE if there is no such edge."""
        edge_M, row_M = self.edges(node_N)
        taken_M = self.token_E[edge_M] == token_N[row_M]
        after_N = torch.full_like(node_N, NONE)
        after_N[row_M[taken_M]] = edge_M[taken_M] + 1
        return after_N


def _joined(token_WL: Ids, count_W: NDArray[np.float64]) -> PrefixTree:
    """The tree of sorted words. Words with equal beginnings are neighbours, so the words below an edge are a run."""
    new_W = np.zeros(len(token_WL), bool)
    new_W[0] = True
    node_W, nodes = np.zeros(len(token_WL), np.int64), 1
    parents, tokens, shares = [], [], []
    for token_W in token_WL.T:
        new_W[1:] |= token_W[1:] != token_W[:-1]
        real_W = token_W != PAD
        starts = np.flatnonzero(new_W & real_W)
        edge_W = np.cumsum(new_W & real_W) - 1
        below = np.bincount(edge_W[real_W], count_W[real_W], len(starts))
        whole = np.bincount(node_W, count_W, nodes)[node_W[starts]]
        parents.append(node_W[starts])
        tokens.append(token_W[starts])
        shares.append(np.log(below / whole))
        node_W = np.where(real_W, nodes + edge_W, node_W)
        nodes += len(starts)
    first_Q = np.searchsorted(np.concatenate(parents), np.arange(nodes + 1))
    arrays = (first_Q, np.concatenate(tokens), np.concatenate(shares))
    return PrefixTree(*map(torch.from_numpy, arrays))
