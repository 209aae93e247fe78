"""Pairs cut into units, each a piece of the source beside a piece of the target, by expectation maximisation.

Deligne, Yvon and Bimbot 1995; Jiampojamarn, Kondrak and Sherif 2007; Bisani and Ney 2008, section 3. Units are called
graphones in pronunciation, and joint multigrams elsewhere. A unit has one source token and up to ``longest[1]`` target
tokens, or up to ``longest[0]`` source tokens and one target token: never several of both. N pairs of one shape, S
source and T target tokens each; U units.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transduce.core.errors import UserError
from transduce.data.pairs import Pairs

Ids = NDArray[np.int64]
Shape = tuple[int, int]  # source and target tokens of a unit
Mask = NDArray[np.bool_]

CHUNK = 4096  # pairs that are processed at once; this bounds the memory of a pass beside the units


@dataclass(frozen=True)
class _Group:
    """Pairs of one shape: ``rows_N`` are their rows, and ``size`` is their S and T, without EOS.

    ``units`` has one tensor for each shape (a, b) of a unit that fits into them: the index of the unit that begins at
    each place, [N, S + 1 - a, T + 1 - b]. It is U where no segmentation of the pair can have a unit of this shape.
    """

    rows_N: Ids
    size: Shape
    units: dict[Shape, Tensor]


class Cosegmentation:
    """All segmentations of pairs into units, and the probability of each unit: at first all are equally probable.

    ``longest`` are the most source tokens and the most target tokens of a unit. ``units`` [U, sum(longest)] are the
    source tokens of each unit, then its target tokens, both padded with 0 at the end. The rows of ``units`` ascend.
    ``uncut`` are the rows of ``pairs`` that cannot be cut: those without a source, and those with more than
    ``longest[1]`` target tokens for each source token. Raises UserError if a unit's tokens do not fit in one integer of
    63 bits.
    """

    def __init__(self, pairs: Pairs, longest: Shape = (2, 2)) -> None:
        widths = [int(side.ids.max(initial=0)) + 1 for side in (pairs.source, pairs.target)]
        if widths[0] ** longest[0] * widths[1] ** longest[1] >= 2**63:
            raise UserError(
                f"vocabularies of {widths[0]:,} and {widths[1]:,} tokens are too large for units of up to {longest[0]} "
                f"source and {longest[1]} target tokens: choose data.units.source and data.units.target with smaller "
                "vocabularies, or lower model.source_tokens and model.target_tokens"
            )
        cuttable, uncut = [], [np.zeros(0, np.int64)]
        for rows_N, (S, T) in _shapes(pairs):
            if not S or longest[1] * S < T:
                uncut.append(rows_N)
            else:
                cuttable.append((rows_N, (S, T)))
        self.uncut = np.sort(np.concatenate(uncut))
        # Two passes over the pairs: the keys of all pairs at once would need several times the memory of the units.
        found = (
            keys for rows_N, size in cuttable for _, _, keys in _keys_by_shape(pairs, rows_N, size, longest, widths)
        )
        every = np.unique(np.concatenate([np.zeros(0, np.int64), *map(np.unique, found)]))
        self.units = _tokens(every, longest, widths)
        self.log_prob = torch.full((len(every),), -math.log(max(len(every), 1)), dtype=torch.float64)
        self._groups = []
        for rows_N, size in cuttable:
            units = {}
            for shape, passed_ST, keys in _keys_by_shape(pairs, rows_N, size, longest, widths):
                unit_NST = np.full((len(rows_N), *passed_ST.shape), len(every), np.int32)
                unit_NST[:, passed_ST] = np.searchsorted(every, keys)
                units[shape] = torch.from_numpy(unit_NST)
            self._groups.append(_Group(rows_N, size, units))

    def reestimate(self) -> float:
        """One pass of expectation maximisation. Each unit's new probability is its expected relative frequency.

        Returns the log-probability (natural logarithm) of the pairs that can be cut, before the pass.
        """
        count_U = torch.zeros(len(self.units) + 1, dtype=torch.float64)
        total = 0.0
        for group in self._groups:
            scores = self._scores(group)
            ahead, behind = _forward(group.size, scores, torch.logaddexp), _backward(group.size, scores)
            whole_N = ahead[:, -1, -1]
            total += float(whole_N.sum())
            for (a, b), score in scores.items():
                S, T = (size + 1 for size in group.size)
                posterior = ahead[:, : S - a, : T - b] + score + behind[:, a:, b:] - whole_N[:, None, None]
                count_U.index_add_(0, group.units[a, b].flatten(), posterior.exp().flatten())
        self.log_prob = (count_U[:-1] / count_U[:-1].sum()).log()
        return total

    def best(self) -> list[Ids]:
        """The best segmentation of each pair that can be cut, as indices of its units in order.

        The segmentations are grouped by the pairs' shapes, so they are not in the order of the pairs. The logarithm of
        a unit's probability counts as often as the unit has tokens on its longer side, as it would for several short
        units. So units stay short.
        """
        return [row for group in self._groups for row in self._best(group)]

    def _best(self, group: _Group) -> list[Ids]:
        scores = {shape: score * max(shape) for shape, score in self._scores(group).items()}
        ahead = _forward(group.size, scores, torch.maximum)
        s_N, t_N = (torch.full((len(group.rows_N),), size) for size in group.size)
        row_N, taken = torch.arange(len(group.rows_N)), []
        steps, nowhere = torch.tensor(list(scores)), len(self.units)
        while bool((s_N > 0).any()):
            offers, units = [], []
            for (a, b), score in scores.items():
                place = row_N, (s_N - a).clamp(0, score.shape[1] - 1), (t_N - b).clamp(0, score.shape[2] - 1)
                offers.append((ahead[place] + score[place]).masked_fill((s_N < a) | (t_N < b), -torch.inf))
                units.append(group.units[a, b][place])
            chosen_N = torch.stack(offers).argmax(0)
            taken.append(torch.stack(units)[chosen_N, row_N].masked_fill(s_N == 0, nowhere))
            s_N, t_N = (torch.where(s_N > 0, at - steps[chosen_N, side], at) for side, at in enumerate((s_N, t_N)))
        backwards = torch.stack(taken, 1).flip(1).numpy().astype(np.int64)
        return [row[row != nowhere] for row in backwards]

    def _scores(self, group: _Group) -> dict[Shape, Tensor]:
        known_U = torch.cat([self.log_prob, torch.full((1,), -torch.inf, dtype=torch.float64)])
        return {shape: known_U[unit] for shape, unit in group.units.items()}


def _shapes(pairs: Pairs) -> Iterator[tuple[Ids, Shape]]:
    """Yields chunks of at most ``CHUNK`` rows that have the same shape. EOS does not count."""
    sizes = np.stack([pairs.source_lengths, pairs.target_lengths], 1).astype(np.int64) - 1
    shapes, inverse = np.unique(sizes, axis=0, return_inverse=True)
    order = np.argsort(inverse.ravel(), kind="stable")
    bounds = np.searchsorted(inverse.ravel()[order], np.arange(len(shapes) + 1))
    for (S, T), begin, end in zip(shapes, bounds[:-1], bounds[1:], strict=True):
        for first in range(begin, end, CHUNK):
            yield order[first : min(first + CHUNK, end)], (int(S), int(T))


def unit_shapes(longest: Shape) -> Iterator[Shape]:
    """The shapes that units have: one source token and several target tokens or none, or the reverse."""
    yield from ((1, b) for b in range(longest[1] + 1))
    yield from ((a, 1) for a in range(2, longest[0] + 1))


def _keys_by_shape(
    pairs: Pairs, rows_N: Ids, size: Shape, longest: Shape, widths: list[int]
) -> Iterator[tuple[Shape, Mask, Ids]]:
    """For each shape of a unit that fits: the places where a segmentation can have it, and the keys [N, places] of the
    units there."""
    S, T = size
    batch = pairs.batch(rows_N)
    source_NS, target_NT = batch.source.values.numpy()[:, :S], batch.target.values.numpy()[:, :T]
    for a, b in unit_shapes(longest):
        if a <= S and b <= T:
            passed_ST = _passed(size, (a, b), longest[1])
            yield (a, b), passed_ST, _keys(source_NS, target_NT, (a, b), longest, widths)[:, passed_ST]


def _passed(size: Shape, shape: Shape, most: int) -> Mask:
    """[S + 1 - a, T + 1 - b]: whether a segmentation can have a unit of shape (a, b) that begins at (s, t).

    A source token has at most ``most`` target tokens, both before and after the unit.
    """
    (S, T), (a, b) = size, shape
    s, t = np.arange(S + 1 - a)[:, None], np.arange(T + 1 - b)[None]
    return (t <= most * s) & (T - t - b <= most * (S - s - a))


def _keys(source_NS: Ids, target_NT: Ids, shape: Shape, longest: Shape, widths: list[int]) -> Ids:
    """[N, S + 1 - a, T + 1 - b]: the tokens of each unit as one number, which ``_tokens`` inverts."""
    key = np.zeros((1, 1, 1), np.int64)
    sides = zip((source_NS, target_NT), shape, longest, widths, (2, 1), strict=True)
    for tokens, count, most, width, axis in sides:
        starts = tokens.shape[1] + 1 - count
        for place in range(most):
            piece = tokens[:, place : place + starts] if place < count else np.zeros((len(tokens), starts), np.int64)
            key = key * width + np.expand_dims(piece, axis)
    return key


def _tokens(key_U: Ids, longest: Shape, widths: list[int]) -> Ids:
    """[U, sum(longest)]: the tokens of units, from their keys."""
    columns = []
    for width in [widths[1]] * longest[1] + [widths[0]] * longest[0]:
        key_U, column = np.divmod(key_U, width)
        columns.append(column)
    return np.stack(columns[::-1], 1)


def _forward(size: Shape, scores: dict[Shape, Tensor], add: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """[N, S + 1, T + 1]: log-probabilities of all segmentations from the start to (s, t), combined by ``add``."""
    S, T = size
    found = _unreached(size, scores)
    found[:, 0, 0] = 0.0
    for s in range(S):
        for (a, b), score in scores.items():
            if s + a <= S:
                there = found[:, s + a, b:]
                there.copy_(add(there, found[:, s, : T + 1 - b] + score[:, s]))
    return found


def _backward(size: Shape, scores: dict[Shape, Tensor]) -> Tensor:
    """[N, S + 1, T + 1]: the log-sum of the probabilities of all segmentations from (s, t) to the end."""
    S, T = size
    found = _unreached(size, scores)
    found[:, S, T] = 0.0
    for s in reversed(range(S)):
        for (a, b), score in scores.items():
            if s + a <= S:
                here = found[:, s, : T + 1 - b]
                here.copy_(torch.logaddexp(here, found[:, s + a, b:] + score[:, s]))
    return found


def _unreached(size: Shape, scores: dict[Shape, Tensor]) -> Tensor:
    N = len(next(iter(scores.values())))
    return torch.full((N, size[0] + 1, size[1] + 1), -torch.inf, dtype=torch.float64)
