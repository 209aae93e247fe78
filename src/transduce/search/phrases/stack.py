"""Stack decoding (Koehn, Och and Marcu 2003, section 2.3; Koehn 2004)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import cast

import torch

from transduce.errors import UserError
from transduce.protocols import Deriving, Stepping, can
from transduce.search.base import loaded_model, resized
from transduce.search.labels import check_no_prefix
from transduce.search.phrases.companion import Companion
from transduce.search.phrases.derivations import Graph
from transduce.search.phrases.stacks import Pruning, decoded
from transduce.search.phrases.tables import Tables
from transduce.types import Derivation, Hypothesis, Padded

TRIES = 20  # derivations to look at for each wanted output: many write the same tokens


@dataclass(frozen=True)
class StackSearch:
    """The ``nbest`` outputs of a phrase-based model, each with its best derivation.

    A derivation covers the source phrase by phrase, in any order, and writes the output from left to right. Hypotheses
    that cover equally many source tokens share a stack, and each stack keeps the best ``size``. They are compared by
    their score plus a guess for the rest of the source. ``distortion`` is the most source tokens between the end of a
    phrase and the beginning of the next (null in JSON, -1 here: no limit). ``pool`` is the number of expansions of a
    stack that the language model scores. Expansions that are more than ``threshold`` below the best are dropped before
    that (natural logarithm).

    With ``recombination``, hypotheses that no later phrase can tell apart are merged. That loses nothing: the n best
    outputs include the derivations of merged hypotheses. With a large enough ``size``, ``pool`` and ``threshold`` the
    search is exact.

    ``language_model`` is a second language model beside the model's own: the path of an n-gram run with the same target
    vocabulary, from Python also a model. Its log-probability times ``weight`` is added to the score. Raises UserError
    for a language model of another kind, for a prefix, and for a target to score.
    """

    size: int = 100
    nbest: int = 1
    distortion: int = 6
    pool: int = 400
    threshold: float = 12.0
    recombination: bool = True
    language_model: Path | Stepping | None = None
    weight: float = 0.3

    def __post_init__(self) -> None:
        for name, least in (("size", 1), ("nbest", 1), ("distortion", -1), ("pool", 1), ("threshold", 0)):
            if not getattr(self, name) >= least:
                raise UserError(f"{name} = {getattr(self, name)}: at least {least} was expected")
        if not 0 <= self.weight < math.inf:
            raise UserError(f"weight = {self.weight}: 0, which leaves the language model out, or more was expected")
        given = self.language_model
        if given is not None and not isinstance(given, Path) and not can(type(given), Stepping):
            raise UserError(
                "language_model: a stack search merges hypotheses by the state of the language model, and a "
                f"{type(given).__name__} has no state that is one number; give one n-gram run, or use "
                "`transduce rerank --language-model`"
            )

    @torch.inference_mode()
    def __call__(self, model: Deriving, source: Padded, prefix: Padded | None = None) -> list[list[Derivation]]:
        check_no_prefix(prefix)
        companion = None
        if self.weight and self.language_model is not None:
            companion = Companion.of(cast("Stepping", loaded_model(self.language_model)), self.weight, source)
        tables = Tables.of(model, source, companion)
        pruning = Pruning(
            self.size,
            max(self.pool, self.size),
            self.threshold,
            None if self.distortion < 0 else self.distortion,
            self.recombination,
        )
        arcs, goal_B = decoded(tables, pruning)
        graph = Graph.of(tables, arcs, int(goal_B[-1]) + 1)
        return [self._best(graph, int(goal)) for goal in goal_B]

    def _best(self, graph: Graph, goal: int) -> list[Derivation]:
        found: dict[tuple[int, ...], Derivation] = {}
        for path in islice(graph.paths(goal), TRIES * self.nbest):
            tokens = graph.tokens(path)
            if tokens not in found:
                found[tokens] = graph.derivation(path)
            if len(found) == self.nbest:
                break
        return sorted(found.values(), key=lambda derivation: -derivation.score)

    def force(self, model: Deriving, source: Padded, target: Padded) -> list[Hypothesis]:
        raise UserError(
            "a phrase-based model has no probability of a given target: its scores are of derivations, not normalised; "
            "score with another model, or compare outputs (transduce evaluate)"
        )

    def resized(self, size: int | None = None, nbest: int | None = None) -> StackSearch:
        return resized(self, size, nbest)
