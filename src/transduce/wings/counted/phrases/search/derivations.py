"""The best derivations in the graph of a stack decoder."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

import numpy as np
from numpy.typing import NDArray

from transduce.core.types import EOS, Derivation, Step
from transduce.search.base import EXCLUDED
from transduce.wings.counted.phrases.search.companion import Companion
from transduce.wings.counted.phrases.search.stacks import Arcs
from transduce.wings.counted.phrases.search.tables import Tables, orientation

Ids = NDArray[np.int64]
Numbers = NDArray[np.float64]

Path = tuple[int, "Path"] | None  # the arcs from a node to the goal: the first arc, and the path after it


@dataclass(frozen=True)
class Graph:
    """The arcs of the searches for all sources, sorted by the node that they lead to (``node_A``). The arcs to one node
    are sorted by score, best first.

    The arcs into node n have the indices from ``first[n]`` to ``first[n + 1]`` (exclusive).
    """

    tables: Tables
    arcs: Arcs
    first: list[int]

    @classmethod
    def of(cls, tables: Tables, arcs: Arcs, nodes: int) -> Graph:
        order = np.lexsort((-arcs.score_A, arcs.node_A))
        ordered = Arcs(*(getattr(arcs, name)[order] for name in arcs.__dataclass_fields__))
        return cls(tables, ordered, np.searchsorted(ordered.node_A, np.arange(nodes + 1)).tolist())

    def paths(self, goal: int) -> Iterator[list[int]]:
        """Yields each derivation that ends at the node ``goal``, best first, as the indices of its arcs, first phrase
        first. Yields nothing if no arc leads to ``goal``.

        A path takes the best arc into most of its nodes. A node with another arc is a detour of the path. Each path
        after the first is an earlier path with one more detour, nearer to the beginning than its other detours. So the
        queue holds each path once.
        """
        if self.first[goal] == self.first[goal + 1]:
            return
        parents, scores, order = self.arcs.parent_A, self.arcs.score_A, count()
        queue: list[tuple[float, int, int, Path]] = [(0.0, next(order), goal, None)]
        while queue:
            lost, _, node, after = heapq.heappop(queue)
            path = after
            while self.first[node] < self.first[node + 1]:
                best, last = self.first[node], self.first[node + 1]
                for arc in range(best + 1, last):
                    more = lost + float(scores[best] - scores[arc])
                    heapq.heappush(queue, (more, next(order), int(parents[arc]), (arc, path)))
                path = (best, path)
                node = int(parents[best])
            yield _listed(path)

    def derivation(self, path: list[int]) -> Derivation:
        """The Derivation of a path (indices of arcs, first phrase first). Each arc becomes a step. The last step writes
        EOS.

        The score is the weighted sum of the features, plus the weighted log-probability of a second language model.
        """
        tables, steps, written = self.tables, list[Step](), 0
        features_TF = self.features_AF[path]
        for arc, option, features in zip(path, self.arcs.option_A[path].tolist(), features_TF.tolist(), strict=True):
            length = len(self.written_A[arc])
            if option < 0:
                start = end = int(self.end_N[self.arcs.parent_A[arc]])
                links = [-1]
            else:
                start, end = int(tables.start_O[option]), int(tables.end_O[option])
                links = [-1 if link < 0 else start + link for link in tables.links_OP[option, :length].tolist()]
            outside = float(self.arcs.outside_A[arc])
            steps.append(Step((start, end), (written, written + length), tuple(features), tuple(links), outside))
            written += length
        features_F = features_TF.sum(0)
        score = float(features_F @ tables.weights + self.arcs.outside_A[path].sum())
        return Derivation(self.tokens(path), score, tuple(features_F.tolist()), tuple(steps))

    @cached_property
    def option_N(self) -> Ids:
        """The option of the best arc into each of N nodes [N]. It is -1 for nodes before the first phrase and for
        goals.
        """
        option_N = np.full(len(self.first) - 1, -1, np.int64)
        option_N[self.arcs.node_A[::-1]] = self.arcs.option_A[::-1]  # the best arc into a node comes first, so it wins
        return option_N

    @cached_property
    def end_N(self) -> Ids:
        return self.tables.end_O[self.option_N]

    @cached_property
    def written_A(self) -> list[tuple[int, ...]]:
        """The target tokens of each arc; only EOS for an arc to a goal."""
        tables = self.tables
        tokens = [
            tuple(row[:length]) for row, length in zip(tables.tokens_OP.tolist(), tables.length_O.tolist(), strict=True)
        ]
        return [tokens[option] if option >= 0 else (EOS,) for option in self.arcs.option_A.tolist()]

    def tokens(self, path: list[int]) -> tuple[int, ...]:
        """The target tokens of a path, with EOS at the end."""
        written = self.written_A
        return tuple(token for arc in path for token in written[arc])

    @cached_property
    def features_AF(self) -> Numbers:
        """The unweighted features of each arc [A, F], in the order of ``Deriving.feature_names``. They are the features
        of its phrase, the features that depend on the phrase before it, and the log-probability of its tokens. The
        model's own language model gives this log-probability.
        """
        tables, arcs = self.tables, self.arcs
        option_A, before_A, ends_A = arcs.option_A, self.option_N[arcs.parent_A], arcs.option_A < 0
        start_A = np.where(ends_A, tables.lengths_B[tables.row_O[before_A]], tables.start_O[option_A])
        end_A = np.where(ends_A, -1, tables.end_O[option_A])
        start_A = np.where(ends_A & (before_A < 0), 0, start_A)
        kind_A = orientation(start_A, end_A, tables.start_O[before_A], tables.end_O[before_A])
        every = np.arange(len(option_A))
        before_A3, after_A3 = np.zeros((2, len(every), 3))
        before_A3[every, kind_A] = tables.orientation_O6[option_A, kind_A]
        after_A3[every, kind_A] = tables.orientation_O6[before_A, 3 + kind_A]
        jump_A = np.where(ends_A, 0, -np.abs(start_A - tables.end_O[before_A]))
        parts = [tables.features_OF[option_A], jump_A[:, None], before_A3, after_A3, arcs.language_A[:, None]]
        return np.concatenate(parts, 1)


def rescored(found: Sequence[Derivation], companion: Companion, row: int) -> list[Derivation]:
    """The derivations of source ``row`` with exact log-probabilities of the second language model, best first.

    These can differ from the search's own scores. If the search merged different histories, it used the
    log-probabilities of the best one for all of them.
    """
    states, places = np.full(len(found), companion.begun_B[row]), max((len(each.tokens) for each in found), default=0)
    added_FT = np.zeros((len(found), places))
    for place in range(places):
        open_F = np.array([number for number, each in enumerate(found) if len(each.tokens) > place])
        tokens = np.array([found[number].tokens[place] for number in open_F])
        log_prob, states[open_F] = companion.step(states[open_F], tokens)
        added_FT[open_F, place] = companion.weight * np.maximum(log_prob, EXCLUDED)
    exact = []
    for derivation, added_T in zip(found, added_FT, strict=True):
        steps = tuple(replace(step, outside=float(added_T[slice(*step.target)].sum())) for step in derivation.steps)
        change = sum(step.outside for step in steps) - sum(step.outside for step in derivation.steps)
        exact.append(replace(derivation, score=derivation.score + change, steps=steps))
    return sorted(exact, key=lambda each: -each.score)


def _listed(path: Path) -> list[int]:
    arcs = []
    while path is not None:
        arc, path = path
        arcs.append(arc)
    return arcs
