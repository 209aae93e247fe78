"""Stack decoding (Koehn, Och and Marcu 2003, section 2.3; Koehn 2004)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch

from transduce.core import tree
from transduce.core.errors import UserError
from transduce.core.protocols import Autoregressive, Deriving, can
from transduce.core.types import Derivation, Hypothesis, Padded
from transduce.search.base import loaded_model, resized
from transduce.wings.counted.phrases.search.companion import Second
from transduce.wings.counted.phrases.search.derivations import Graph, rescored
from transduce.wings.counted.phrases.search.histories import EVERY
from transduce.wings.counted.phrases.search.stacks import Observer, Pruning, decoded
from transduce.wings.counted.phrases.search.tables import Tables
from transduce.wings.labels.search import check_no_prefix

TRIES = 20  # derivations to read for each requested output, because many write the same tokens


@dataclass(frozen=True)
class StackSearch:
    """Stack decoding: returns for each source at most ``nbest`` different outputs of a phrase-based model, best first,
    each with its best derivation.

    A derivation covers the source phrase by phrase, in any order, and writes the output from left to right. Hypotheses
    that cover equally many source tokens share a stack. For each source, a stack keeps the best ``size`` hypotheses, by
    their score plus a guess for the rest of the source.

    ``distortion`` is the largest number of source tokens between the end of a phrase and the beginning of the next; -1
    means no limit. ``threshold`` first drops expansions of a stack whose score plus guess is more than this (natural
    logarithm) below the best. Then the best ``pool`` expansions are kept (at least ``size``), and the language models
    score them.

    If ``recombination`` is True, hypotheses with the same scores for all later phrases are merged. No derivation is
    lost, because the n best outputs include the derivations of merged hypotheses. The search is exact if ``size``,
    ``pool`` and ``threshold`` are large enough and ``distortion`` is -1. It takes the outputs from the best
    20 * ``nbest`` derivations, so there can be fewer than ``nbest``.

    ``language_model`` is a second language model in addition to the model's own. It is the path of a run with the same
    target vocabulary (RUN+RUN for the mean of several), or from Python a model. Its log-probability times ``weight`` is
    added to the score. Without it, only the model's own language model counts. The states of an n-gram model tell which
    hypotheses can be merged. Other models, such as recurrent ones, have a different state after each output. For them,
    the search merges hypotheses whose last ``recombine_tokens`` target tokens are equal. The default -1 means all
    tokens, and is exact. Another number is an approximation, because a hypothesis that is merged into a better one
    could have won later. The scores of the results are exact in both cases.

    ``observer`` receives each stack. Raises UserError for a language model that does not go token by token or has fewer
    tokens, for a prefix, and for a target to score.
    """

    size: int = 100
    nbest: int = 1
    distortion: int = 6
    pool: int = 400
    threshold: float = 12.0
    recombination: bool = True
    language_model: Path | Autoregressive[object] | None = None
    weight: float = 0.3
    recombine_tokens: int = EVERY
    observer: Observer | None = None

    def __post_init__(self) -> None:
        least = {"size": 1, "nbest": 1, "distortion": -1, "pool": 1, "threshold": 0, "recombine_tokens": -1}
        for name, number in least.items():
            if not getattr(self, name) >= number:
                raise UserError(f"{name} = {getattr(self, name)}: at least {number} was expected")
        if not 0 <= self.weight < math.inf:
            raise UserError(f"weight = {self.weight}: 0, which leaves the language model out, or more was expected")
        given = self.language_model
        if given is not None and not isinstance(given, Path) and not can(type(given), Autoregressive):
            raise UserError(
                "language_model: this model cannot score the next token of an output; give a "
                "language model, n-gram or neural, or use `transduce rerank --language-model`"
            )

    @torch.inference_mode()
    def __call__(self, model: Deriving, source: Padded, prefix: Padded | None = None) -> list[list[Derivation]]:
        check_no_prefix(prefix)
        if not self.weight or self.language_model is None:
            return self._found(model, source, None)
        second = Second(loaded_model(self.language_model), self.weight, self.recombine_tokens)
        found = []
        rows_B = torch.arange(len(source.lengths), device=source.lengths.device)
        for rows in torch.split(rows_B, second.sources):
            found += self._found(model, tree.select(source, rows), second)
        return found

    def _found(self, model: Deriving, source: Padded, second: Second | None) -> list[list[Derivation]]:
        tables = Tables.of(model, source, second)
        pruning = Pruning(
            self.size,
            max(self.pool, self.size),
            self.threshold,
            None if self.distortion < 0 else self.distortion,
            self.recombination,
        )
        arcs, goal_B = decoded(tables, pruning, self.observer)
        graph = Graph.of(tables, arcs, int(goal_B[-1]) + 1)
        found = [self._best(graph, int(goal)) for goal in goal_B]
        companion = tables.companion
        if companion is None or not companion.approximate:
            return found
        return [rescored(each, companion, row) for row, each in enumerate(found)]

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
