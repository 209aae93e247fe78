"""Segments sources into the units of a joint n-gram model.

B sources of up to I tokens, U units, V source vocabulary, E arcs and Q nodes. While a lattice is built, E and Q count
the arcs and nodes of all sources. A node is a place in a source together with a history of the n-gram model of units.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from transduce.core import tree
from transduce.core.types import PAD, Padded
from transduce.wings.counted.ngram_lookup import NgramLookup
from transduce.wings.counted.readings import compiled
from transduce.wings.counted.readings.lattice import Readings

T = TypeVar("T")
LEFT_OUT = -9.0  # log-probability of skipping a token that has no unit alone, so that each source has a reading
ROUNDING = 1e-6  # relative to a reading's log-probability, summed from either side in double precision


@dataclass(frozen=True)
class _Nodes:
    """For each node its source, its place in the source, its history, and ``reached_Q``: the log-sum of the
    probabilities of all paths to it.
    """

    row_Q: Tensor
    place_Q: Tensor
    history_Q: Tensor
    reached_Q: Tensor


@dataclass(frozen=True)
class _Steps:
    """Arcs before pruning: their first node and its source, their unit (U for none), the next history, and their
    log-probability. ``reached_E`` is the log-sum of all paths that end with the arc.
    """

    start_E: Tensor
    row_E: Tensor
    unit_E: Tensor
    log_prob_E: Tensor
    history_E: Tensor
    reached_E: Tensor


@dataclass(frozen=True)
class _Arcs:
    start_E: Tensor
    end_E: Tensor
    unit_E: Tensor
    log_prob_E: Tensor


@dataclass(frozen=True)
class Reader:
    """Segments sources into ``units`` [U, W] (unit_learning.py), which are the words of ``ngrams``.

    The first ``source_tokens`` columns of a unit are its source tokens, the others its target tokens. At each place the
    reader prunes nodes that are more than ``beam`` (natural logarithm) below the best one, and nodes that are not among
    the best ``width``. Then it prunes arcs that are in no reading within ``beam`` of the best reading. Sources end with
    EOS, which it does not segment.
    """

    units: Tensor
    source_tokens: int
    ngrams: NgramLookup
    beam: float
    width: int

    def __call__(self, source: Padded) -> Readings:
        lengths_B = source.lengths - 1  # without EOS
        if compiled.fits(self.ngrams.log_prob):
            settings = self.units, self.source_tokens, self.ngrams, self.beam, self.width
            return compiled.read_sources(*settings, source.values, lengths_B)
        return self.by_operators(source, lengths_B)

    def by_operators(self, source: Padded, lengths_B: Tensor) -> Readings:
        """The lattice on every device and for every type of numbers. ``lengths_B`` do not count EOS."""
        nodes, arcs = self._near(*self._graph(source.values, lengths_B), lengths_B)
        ahead_Q = self._ahead(nodes, arcs, lengths_B, _SUM)
        return self._packed(nodes, tree.join(arcs), ahead_Q, lengths_B)

    # ------------------------------------------------------------ from left to right

    def _graph(self, source_BI: Tensor, lengths_B: Tensor) -> tuple[_Nodes, list[_Arcs]]:
        """The nodes that remain after the pruning at each place, and for each place from 0 on the arcs that end there
        (none at place 0). The first B nodes are the beginnings of the sources. ``lengths_B`` do not count EOS.
        """
        row_B = torch.arange(len(lengths_B), device=source_BI.device)
        place_B, begun_B = torch.zeros_like(row_B), torch.full_like(row_B, self.ngrams.begun)
        nodes = _Nodes(row_B, place_B, begun_B, self.ngrams.log_prob.new_zeros(len(row_B)))
        read_UW = self.units[:, : self.source_tokens]
        # Units contain no token of this number. So it stands for all tokens of the source that no unit contains.
        unknown = int(read_UW.max()) + 1
        nothing, piece_U = row_B[:0], _pieces(read_UW, unknown)  # ascending, as units are
        source_BI = source_BI.clamp(max=unknown)
        every, arcs, known = [nodes], [_Arcs(nothing, nothing, nothing, nodes.reached_Q[:0])], 0
        pending: defaultdict[int, list[_Steps]] = defaultdict(list)
        for place in range(int(lengths_B.max())):
            for size in range(1, self.source_tokens + 1):
                pending[place + size].append(self._steps(nodes, known, size, source_BI, lengths_B, piece_U, unknown))
            known += len(nodes.row_Q)
            nodes, come = self._arrive(tree.join(pending.pop(place + 1)), place + 1, known)
            every.append(nodes)
            arcs.append(come)
        return tree.join(every), arcs

    def _steps(
        self,
        nodes: _Nodes,
        known: int,
        size: int,
        source_BI: Tensor,
        lengths_B: Tensor,
        piece_U: Tensor,
        unknown: int,
    ) -> _Steps:
        """The steps over ``size`` source tokens from the nodes of one place. These nodes have the numbers from
        ``known`` on.
        """
        number_Q = known + torch.arange(len(nodes.row_Q), device=source_BI.device)
        fits_Q = nodes.place_Q + size <= lengths_B[nodes.row_Q]
        nodes, number_Q = _where(fits_Q, (nodes, number_Q))
        tokens = [source_BI[nodes.row_Q, nodes.place_Q + offset] for offset in range(size)]
        tokens += [torch.zeros_like(nodes.place_Q)] * (self.source_tokens - size)
        piece_Q = _pieces(torch.stack(tokens, 1), unknown)
        begin_Q = torch.searchsorted(piece_U, piece_Q)
        count_Q = torch.searchsorted(piece_U, piece_Q, right=True) - begin_Q
        origin_E = torch.arange(len(count_Q), device=count_Q.device).repeat_interleave(count_Q)
        unit_E = begin_Q[origin_E] + torch.arange(len(origin_E), device=count_Q.device)
        unit_E = unit_E - (count_Q.cumsum(0) - count_Q)[origin_E]
        log_prob_E, history_E = self.ngrams(nodes.history_Q[origin_E], unit_E)
        if size == 1:
            silent_Q = torch.nonzero(count_Q == 0)[:, 0]
            origin_E = torch.cat([origin_E, silent_Q])
            unit_E = torch.cat([unit_E, torch.full_like(silent_Q, len(self.units))])
            log_prob_E = torch.cat([log_prob_E, log_prob_E.new_full(silent_Q.shape, LEFT_OUT)])
            history_E = torch.cat([history_E, nodes.history_Q[silent_Q]])
        reached_E = nodes.reached_Q[origin_E] + log_prob_E
        return _Steps(number_Q[origin_E], nodes.row_Q[origin_E], unit_E, log_prob_E, history_E, reached_E)

    def _arrive(self, steps: _Steps, place: int, known: int) -> tuple[_Nodes, _Arcs]:
        """The nodes that steps lead to, after pruning, numbered from ``known`` on, and the remaining arcs."""
        memories = len(self.ngrams)
        key_Q, node_E = torch.unique(steps.row_E * memories + steps.history_E, return_inverse=True)
        row_Q, reached_Q = key_Q // memories, _log_sums(steps.reached_E, node_E, len(key_Q))
        kept_Q = self._probable(row_Q, reached_Q)
        number_Q = torch.where(kept_Q, known + kept_Q.cumsum(0) - 1, -1)
        end_E = number_Q[node_E]
        nodes = _Nodes(row_Q, torch.full_like(row_Q, place), key_Q % memories, reached_Q)
        arcs = _Arcs(steps.start_E, end_E, steps.unit_E, steps.log_prob_E)
        return _where(kept_Q, nodes), _where(end_E >= 0, arcs)

    def _probable(self, row_Q: Tensor, reached_Q: Tensor) -> Tensor:
        best_Q = _greatest(reached_Q, row_Q, int(row_Q.max()) + 1)[row_Q]
        order_Q = reached_Q.argsort(descending=True, stable=True)
        ahead_Q = torch.empty_like(row_Q).scatter_(0, order_Q, _within(row_Q[order_Q]))
        probable_Q: Tensor = (reached_Q >= best_Q - self.beam) & (ahead_Q < self.width)
        return probable_Q

    # ------------------------------------------------------------ from right to left

    def _near(self, nodes: _Nodes, arcs: Sequence[_Arcs], lengths_B: Tensor) -> tuple[_Nodes, list[_Arcs]]:
        """Removes the arcs that are in no reading near the best of their source, and the nodes that only they reach.
        The numbers of the others become float64.
        """
        wide = partial(tree.map, lambda leaf: leaf.double() if leaf.is_floating_point() else leaf)
        nodes, arcs = wide(nodes), wide(tuple(arcs))
        near = self._near_best(nodes, arcs, lengths_B)
        # rounding may separate an arc from its reading: keep only arcs that lead from the beginning to an end
        onward_Q = nodes.place_Q == lengths_B[nodes.row_Q]
        for come, kept_E in zip(reversed(arcs), reversed(near), strict=True):
            kept_E &= onward_Q[come.end_E]
            onward_Q[come.start_E[kept_E]] = True
        begun_Q = nodes.place_Q == 0
        for come, kept_E in zip(arcs, near, strict=True):
            kept_E &= begun_Q[come.start_E]
            begun_Q[come.end_E[kept_E]] = True
        kept_Q = onward_Q & begun_Q
        number_Q = kept_Q.cumsum(0) - 1
        renumbered = [replace(come, start_E=number_Q[come.start_E], end_E=number_Q[come.end_E]) for come in arcs]
        return _where(kept_Q, nodes), [_where(kept_E, come) for come, kept_E in zip(renumbered, near, strict=True)]

    def _near_best(self, nodes: _Nodes, arcs: Sequence[_Arcs], lengths_B: Tensor) -> list[Tensor]:
        """For each place a mask [E]: True for arcs in a reading near the best of their source."""
        behind_Q = nodes.reached_Q.masked_fill(nodes.place_Q > 0, -torch.inf)
        for come in arcs:
            reached_E = behind_Q[come.start_E] + come.log_prob_E
            behind_Q = torch.maximum(behind_Q, _greatest(reached_E, come.end_E, len(behind_Q)))
        ahead_Q = self._ahead(nodes, arcs, lengths_B, _BEST)
        least_B = (ahead_Q[: len(lengths_B)] - self.beam - ROUNDING).clamp(min=torch.finfo(ahead_Q.dtype).min)
        least_Q = least_B[nodes.row_Q]
        return [
            behind_Q[come.start_E] + come.log_prob_E + ahead_Q[come.end_E] >= least_Q[come.start_E] for come in arcs
        ]

    def _ahead(self, nodes: _Nodes, arcs: Sequence[_Arcs], lengths_B: Tensor, semiring: _Semiring) -> Tensor:
        """[Q]: the log-sum of all paths (``_SUM``) or the log-probability of the best path (``_BEST``) from each node
        to the end of its source.
        """
        last_Q = nodes.place_Q == lengths_B[nodes.row_Q]
        ahead_Q = torch.full_like(nodes.reached_Q, -torch.inf)
        ending, _ = self.ngrams(nodes.history_Q[last_Q], torch.full_like(nodes.place_Q[last_Q], self.ngrams.end))
        ahead_Q[last_Q] = ending.to(ahead_Q)
        for come in reversed(arcs):
            onward_E = come.log_prob_E + ahead_Q[come.end_E]
            ahead_Q = semiring.both(ahead_Q, semiring.every(onward_E, come.start_E, len(ahead_Q)))
        return ahead_Q

    def _packed(self, nodes: _Nodes, arcs: _Arcs, ahead_Q: Tensor, lengths_B: Tensor) -> Readings:
        """The lattices of all sources, padded to one size.

        An arc that writes several tokens becomes a chain of arcs that write one token each, with new nodes between.
        """
        chance_E = (arcs.log_prob_E + ahead_Q[arcs.end_E] - ahead_Q[arcs.start_E]).exp()
        row_Q = nodes.row_Q
        ending_Q = (nodes.place_Q == lengths_B[nodes.row_Q]).to(chance_E.dtype)
        start_E, end_E = arcs.start_E, arcs.end_E
        written_UW = torch.cat([self.units, self.units.new_zeros(1, self.units.shape[1])])[:, self.source_tokens :]
        token_E, *later_tokens = written_UW[arcs.unit_E].unbind(1)
        last_E = torch.arange(len(token_E), device=token_E.device)
        for next_E in later_tokens:  # of the original arcs; ``last_E`` is where the last arc of each chain stands
            longer_E = next_E != PAD
            before_D = last_E[longer_E]
            between_D = len(row_Q) + torch.arange(len(before_D), device=row_Q.device)
            last_E = last_E.masked_scatter(longer_E, len(token_E) + torch.arange(len(before_D), device=row_Q.device))
            row_Q = torch.cat([row_Q, row_Q[start_E[before_D]]])
            start_E, end_E = (
                torch.cat([start_E, between_D]),
                torch.cat([end_E.index_copy(0, before_D, between_D), end_E[before_D]]),
            )
            token_E = torch.cat([token_E, next_E[longer_E]])
        chance_E = torch.cat([chance_E, chance_E.new_ones(len(token_E) - len(chance_E))])
        ending_Q = torch.cat([ending_Q, ending_Q.new_zeros(len(row_Q) - len(ending_Q))])

        own_Q = _within(row_Q)  # its index in its source
        start_E, end_E, row_E = own_Q[start_E], own_Q[end_E], row_Q[start_E]
        B, silent_E = len(lengths_B), token_E == PAD
        shape = B, int(own_Q.max()) + 1
        silently = row_E[silent_E], start_E[silent_E]
        silent_BQ = _table(shape, silently, chance_E[silent_E])
        silent_end_BQ = _table(shape, silently, end_E[silent_E])
        writing = row_E[~silent_E], _within(row_E[~silent_E])
        shape_BE = B, int(torch.bincount(writing[0], minlength=1).max())
        start_BE, end_BE, token_BE, chance_BE = (
            _table(shape_BE, writing, values_E[~silent_E]) for values_E in (start_E, end_E, token_E, chance_E)
        )
        ending_BQ = _table(shape, (row_Q, own_Q), ending_Q)
        depth = _depth(silent_BQ, silent_end_BQ)
        return Readings(start_BE, end_BE, token_BE, chance_BE, silent_BQ, silent_end_BQ, ending_BQ, depth)


def _pieces(tokens_QW: Tensor, unknown: int) -> Tensor:
    """[Q]: the tokens of each row as one number; all tokens are at most ``unknown``."""
    key_Q = torch.zeros_like(tokens_QW[:, 0])
    for token_Q in tokens_QW.unbind(1):
        key_Q = key_Q * (unknown + 1) + token_Q
    return key_Q


def _table(shape: tuple[int, int], place: tuple[Tensor, Tensor], values_E: Tensor) -> Tensor:
    return values_E.new_zeros(shape).index_put(place, values_E)


def _where(kept: Tensor, values: T) -> T:
    return tree.map(lambda leaf: leaf[kept], values)


def _depth(silent_BQ: Tensor, silent_end_BQ: Tensor) -> int:
    """The largest number of silent arcs in a row."""
    depth, reached_BQ = 0, torch.ones_like(silent_BQ)
    while bool((going_BQ := reached_BQ * (silent_BQ > 0)).any()):
        reached_BQ = torch.zeros_like(silent_BQ).scatter_add_(1, silent_end_BQ, going_BQ)
        depth += 1
    return depth


def _within(row_N: Tensor) -> Tensor:
    """For each entry, the number of earlier entries of the same row."""
    order_N, count = row_N.argsort(stable=True), torch.bincount(row_N)
    begin = count.cumsum(0) - count
    place_N = torch.arange(len(row_N), device=row_N.device)
    return torch.empty_like(row_N).scatter_(0, order_N, place_N - begin[row_N[order_N]])


def _greatest(value_E: Tensor, index_E: Tensor, size: int) -> Tensor:
    return value_E.new_full((size,), -torch.inf).scatter_reduce(0, index_E, value_E, "amax")


def _log_sums(value_E: Tensor, index_E: Tensor, size: int) -> Tensor:
    """[size]: the log-sum-exp of the values with each index."""
    greatest = _greatest(value_E, index_E, size).nan_to_num(neginf=0.0)
    return value_E.new_zeros(size).index_add(0, index_E, (value_E - greatest[index_E]).exp()).log() + greatest


@dataclass(frozen=True)
class _Semiring:
    """How to combine paths: two at once, or all paths with the same index."""

    both: Callable[[Tensor, Tensor], Tensor]
    every: Callable[[Tensor, Tensor, int], Tensor]


_SUM = _Semiring(torch.logaddexp, _log_sums)
_BEST = _Semiring(torch.maximum, _greatest)
