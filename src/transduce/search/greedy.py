"""Greedy search: the most probable token at each step. N rows, V vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from transduce import tree
from transduce.protocols import Autoregressive
from transduce.search.base import Filter
from transduce.search.beam import Beam
from transduce.search.constraints.base import BatchConstraints
from transduce.search.forcing import force
from transduce.search.step import advance, begin, check_length, highest, remaining
from transduce.types import EOS, Hypothesis, Padded


@dataclass(frozen=True)
class Greedy:
    """At each step, writes the token with the highest log-probability after ``filters``, until EOS. Filters may forbid
    or penalise tokens. Token number ``max_length`` is always EOS.
    """

    max_length: int = 200
    filters: tuple[Filter[Any], ...] = ()

    def __post_init__(self) -> None:
        check_length(self.max_length)

    def __call__(self, model: Autoregressive[Any], source: Any, prefix: Padded | None = None) -> list[list[Hypothesis]]:
        tokens: list[list[int]] = [[] for _ in range(tree.rows(source))]
        log_probs: list[list[float]] = [[] for _ in tokens]
        for step in list(self._steps(model, source, prefix)):
            for row, active, token, log_prob in step.rows():
                if active:
                    tokens[row].append(token)
                    log_probs[row].append(log_prob)
        return [
            [Hypothesis(tuple(row), total := sum(each), total, tuple(each))]
            for row, each in zip(tokens, log_probs, strict=True)
        ]

    def stream(
        self, model: Autoregressive[Any], source: Any, prefix: Padded | None = None
    ) -> Iterator[tuple[int, ...]]:
        """For one source: yields the output so far, after each token. A prefix counts token by token, too."""
        tokens: tuple[int, ...] = ()
        for step in self._steps(model, source, prefix):
            tokens = (*tokens, step.tokens[0])
            yield tokens

    @torch.inference_mode()
    def _steps(self, model: Autoregressive[Any], source: Any, prefix: Padded | None) -> Iterator[_Step]:
        front, begun = begin(model, source, prefix, self.filters, self.max_length)
        sources = list(range(len(front.token_N)))
        active = [True] * len(sources)
        for token_N, log_prob_N in zip(begun.tokens_BT.unbind(1), begun.log_probs_BT.unbind(1), strict=True):
            yield _Step(sources, active, token_N.tolist(), log_prob_N)
        for place in range(begun.tokens_BT.shape[1], self.max_length):
            following, front = advance(model, self.filters, front, place, last=place == self.max_length - 1)
            _, token_N = highest(following.scores_NV)
            tokens = token_N.tolist()  # all that a step reads from the device
            yield _Step(sources, active, tokens, following.log_prob(token_N))
            active = [going and token != EOS for going, token in zip(active, tokens, strict=True)]
            if not any(active):
                break
            if len(stay := remaining(active)) < len(active):
                token_N, front = tree.select((token_N, front), torch.tensor(stay, device=token_N.device))
                sources, active = [sources[row] for row in stay], [active[row] for row in stay]
            front = front.write(token_N[:, None], self.filters)

    def force(self, model: Autoregressive[Any], source: Any, target: Padded) -> list[Hypothesis]:
        return force(model, source, target)

    def resized(self, size: int | None = None, nbest: int | None = None) -> Greedy | Beam:
        """A beam with the same options, or this search if neither number is given."""
        if size is None and nbest is None:
            return self
        return Beam(max_length=self.max_length, filters=self.filters).resized(size, nbest)

    def constrained(self, constraints: BatchConstraints) -> Greedy:
        constraints.check_nothing_required(type(self).__name__)
        return replace(self, filters=constraints.filters(self.filters, self.max_length))


@dataclass(frozen=True)
class _Step:
    """The tokens of one step: for each row its source, whether it was active before the step, its token and the token's
    log-probability. Tokens of inactive rows do not count.
    """

    sources: list[int]
    active: list[bool]
    tokens: list[int]
    log_prob_N: Tensor

    def rows(self) -> Iterator[tuple[int, bool, int, float]]:
        return zip(self.sources, self.active, self.tokens, self.log_prob_N.tolist(), strict=True)
