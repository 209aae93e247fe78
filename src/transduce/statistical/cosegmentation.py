"""Pairs cut into units, each a piece of the source beside a piece of the target, by expectation maximisation.

Deligne, Yvon and Bimbot 1995; Jiampojamarn, Kondrak and Sherif 2007; Bisani and Ney 2008, section 3. Units are called
graphones where letters meet sounds, and joint multigrams elsewhere. Here a source's piece has one or two tokens and
a target's none, one or two, but not two of each. N pairs of one shape, S source and T target tokens each; U units.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transduce.data.pairs import Pairs
from transduce.errors import UserError

Ids = NDArray[np.int64]
Shape = tuple[int, int]  # source and target tokens of a unit
Where = NDArray[np.bool_]

SHAPES: tuple[Shape, ...] = ((1, 0), (1, 1), (1, 2), (2, 1))
TOGETHER = 4096  # pairs that are looked at at once, which is what a pass takes beside the units
PLURAL = 2.0  # what the logarithm of a unit of two tokens is multiplied by, as two units' would be: units stay short


@dataclass(frozen=True)
class _Group:
    """Pairs of one shape. For each shape of a unit that fits into them, the units [N, S + 1 - a, T + 1 - b] that begin
    at each place; U where no way through the pair passes."""

    rows_N: Ids
    size: Shape
    units: dict[Shape, Tensor]


class Cosegmentation:
    """All ways to cut pairs into units, and how probable each unit is: at first all alike.

    ``units`` [U, 4] are the tokens of each, two of the source and two of the target, 0 where there are fewer, in
    ascending order. ``uncut`` are the rows that cannot be cut: without a source, or with more than two target tokens
    for each source token.
    """

    def __init__(self, pairs: Pairs) -> None:
        widths = [int(side.ids.max(initial=0)) + 1 for side in (pairs.source, pairs.target)]
        if (widths[0] * widths[1]) ** 2 >= 2**63:
            raise UserError(
                f"vocabularies of {widths[0]:,} and {widths[1]:,} are too large for units of two tokens of each: make "
                "data.units.source and data.units.target smaller"
            )
        cuttable, uncut = [], [np.zeros(0, np.int64)]
        for rows_N, (S, T) in _shapes(pairs):
            if not S or 2 * S < T:
                uncut.append(rows_N)
            else:
                cuttable.append((rows_N, (S, T)))
        self.uncut = np.sort(np.concatenate(uncut))
        # looked at twice: what is asked for in all pairs at once would take several times the room of what is kept
        asked = (keys for rows_N, size in cuttable for _, _, keys in _asked(pairs, rows_N, size, widths))
        every = np.unique(np.concatenate([np.zeros(0, np.int64), *map(np.unique, asked)]))
        self.units = _tokens(every, widths)
        self.log_prob = torch.full((len(every),), -math.log(max(len(every), 1)), dtype=torch.float64)
        self._groups = []
        for rows_N, size in cuttable:
            units = {}
            for shape, passed_ST, keys in _asked(pairs, rows_N, size, widths):
                unit_NST = np.full((len(rows_N), *passed_ST.shape), len(every), np.int32)
                unit_NST[:, passed_ST] = np.searchsorted(every, keys)
                units[shape] = torch.from_numpy(unit_NST)
            self._groups.append(_Group(rows_N, size, units))

    def reestimate(self) -> float:
        """One pass of expectation maximisation, which makes each unit as probable as it is frequent on the ways through
        all pairs, these weighted by their probability. Returns the pairs' log-probability before it."""
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
        """The most probable way through each pair that can be cut: its units in order, of all pairs together."""
        return [row for group in self._groups for row in self._best(group)]

    def _best(self, group: _Group) -> list[Ids]:
        scores = {shape: score * (PLURAL if 2 in shape else 1.0) for shape, score in self._scores(group).items()}
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
    """Rows of like shape, their ends not counted, at most ``TOGETHER``."""
    sizes = np.stack([pairs.source_lengths, pairs.target_lengths], 1).astype(np.int64) - 1
    shapes, inverse = np.unique(sizes, axis=0, return_inverse=True)
    order = np.argsort(inverse.ravel(), kind="stable")
    bounds = np.searchsorted(inverse.ravel()[order], np.arange(len(shapes) + 1))
    for (S, T), begin, end in zip(shapes, bounds[:-1], bounds[1:], strict=True):
        for first in range(begin, end, TOGETHER):
            yield order[first : min(first + TOGETHER, end)], (int(S), int(T))


def _asked(pairs: Pairs, rows_N: Ids, size: Shape, widths: list[int]) -> Iterator[tuple[Shape, Where, Ids]]:
    """For each shape of a unit that fits, where it is on a way through the pairs, and the units there [N, places]."""
    S, T = size
    batch = pairs.batch(rows_N)
    source_NS, target_NT = batch.source.values.numpy()[:, :S], batch.target.values.numpy()[:, :T]
    for a, b in SHAPES:
        if a <= S and b <= T:
            passed_ST = _passed(S, T, a, b)
            yield (a, b), passed_ST, _keys(source_NS, target_NT, (a, b), widths)[:, passed_ST]


def _passed(S: int, T: int, a: int, b: int) -> Where:
    """[S + 1 - a, T + 1 - b]: whether a unit of this shape that begins at (s, t) is on a way from start to end."""
    s, t = np.arange(S + 1 - a)[:, None], np.arange(T + 1 - b)[None]
    return (t <= 2 * s) & (T - t - b <= 2 * (S - s - a))


def _keys(source_NS: Ids, target_NT: Ids, shape: Shape, widths: list[int]) -> Ids:
    """[N, S + 1 - a, T + 1 - b]: the tokens of a unit as one number, that of ``_tokens``."""
    key = np.zeros((1, 1, 1), np.int64)
    for tokens, count, width, axis in zip((source_NS, target_NT), shape, widths, (2, 1), strict=True):
        starts = tokens.shape[1] + 1 - count
        for place in range(2):
            piece = tokens[:, place : place + starts] if place < count else np.zeros((len(tokens), starts), np.int64)
            key = key * width + np.expand_dims(piece, axis)
    return key


def _tokens(key_U: Ids, widths: list[int]) -> Ids:
    columns = []
    for width in (widths[1], widths[1], widths[0], widths[0]):
        key_U, column = np.divmod(key_U, width)
        columns.append(column)
    return np.stack(columns[::-1], 1)


def _forward(size: Shape, scores: dict[Shape, Tensor], add: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """[N, S + 1, T + 1]: the logarithm of the sum, or of the greatest, of all ways from the start to (s, t)."""
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
    """[N, S + 1, T + 1]: the logarithm of the sum of all ways from (s, t) to the end."""
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
