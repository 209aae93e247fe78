"""The best derivations in the graph of a stack decoder."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transduce.protocols import DERIVED
from transduce.search.phrases.stacks import Arcs
from transduce.search.phrases.tables import Tables, orientation
from transduce.types import EOS, Derivation, Step

Ids = NDArray[np.int64]

Path = tuple[int, Any] | None  # arcs from some node on to the goal: the first arc, and the path after it


@dataclass(frozen=True)
class Graph:
    """The arcs of all sources, sorted by node, best first. ``first`` [nodes + 1]: the arcs into node n are those from
    ``first[n]`` to ``first[n + 1]``.
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
        """The arcs of each derivation that ends at a goal, first phrase first; derivations best first.

        A path takes the best arc into each node, but for some detours. The next best path is an earlier one with one
        detour more, nearer to the beginning than its others: so a queue of these holds each path once.
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

    def derivation(self, path: list[int], steps: dict[int, tuple[float, ...]]) -> Derivation:
        """A path as a derivation. ``steps`` keeps the features of arcs that several paths share."""
        tables, found, tokens = self.tables, list[Step](), list[int]()
        start, end, before = 0, 0, -1
        for arc in path:
            option = int(self.arcs.option_A[arc])
            if arc not in steps:
                steps[arc] = self._features(arc, option, start, end, before)
            written = len(tokens)
            if option < 0:
                tokens.append(EOS)
                source = (end, end)
            else:
                tokens.extend(tables.tokens_OP[option, : tables.length_O[option]].tolist())
                source = (int(tables.start_O[option]), int(tables.end_O[option]))
            found.append(Step(source, (written, len(tokens)), steps[arc]))
            (start, end), before = source, option
        features = np.sum([step.features for step in found], 0)
        return Derivation(tuple(tokens), float(features @ tables.weights), tuple(features.tolist()), tuple(found))

    def _features(self, arc: int, option: int, start: int, end: int, before: int) -> tuple[float, ...]:
        """The features of a phrase after the phrase ``before``, which covers the source from ``start`` to ``end``."""
        tables, derived = self.tables, dict.fromkeys(DERIVED, 0.0)
        kinds, language = ("monotone", "swap", "discontinuous"), float(self.arcs.language_A[arc])
        if option < 0:
            own = np.zeros(len(tables.weights) - len(DERIVED))
            complete = int(tables.lengths_B[int(tables.options.row_O[before])]) if before >= 0 else 0
            kind = 0 if end == complete else 2
        else:
            own = tables.options.features_OF[option].double().cpu().numpy()
            new_start, new_end = int(tables.start_O[option]), int(tables.end_O[option])
            derived["distortion"] = -float(abs(new_start - end))
            kind = int(orientation(*(np.array(each) for each in (new_start, new_end, start, end))))
            derived[f"{kinds[kind]}-before"] = float(tables.orientation_O6[option, kind])
        if before >= 0:
            derived[f"{kinds[kind]}-after"] = float(tables.orientation_O6[before, 3 + kind])
        derived["language-model"] = language
        return (*own.tolist(), *derived.values())


def _listed(path: Path) -> list[int]:
    arcs = []
    while path is not None:
        arc, path = path
        arcs.append(arc)
    return arcs
