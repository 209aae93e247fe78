"""Greedy search: the most probable token at each step. N rows, V vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from transduce import tree
from transduce.protocols import Autoregressive
from transduce.search.beam import Beam
from transduce.search.constraints.base import Held
from transduce.search.filters.base import Filter
from transduce.search.forcing import force
from transduce.search.largest import largest
from transduce.search.leaving import staying
from transduce.search.step import advance, begin, check_length
from transduce.types import EOS, Hypothesis, Padded


@dataclass(frozen=True)
class Greedy:
    """The most probable token at each step that ``filters`` allow, until EOS; token number ``max_length`` is EOS
    whatever its probability."""

    max_length: int = 200
    filters: tuple[Filter[Any], ...] = ()

    def __post_init__(self) -> None:
        check_length(self.max_length)

    def __call__(self, model: Autoregressive[Any], source: Any, prefix: Padded | None = None) -> list[list[Hypothesis]]:
        tokens: list[list[int]] = [[] for _ in range(tree.rows(source))]
        log_probs: list[list[float]] = [[] for _ in tokens]
        for rows, token_N, log_prob_N in self._steps(model, source, prefix):
            for row, token, log_prob in zip(rows, token_N.tolist(), log_prob_N.tolist(), strict=True):
                tokens[row].append(token)
                log_probs[row].append(log_prob)
        return [
            [Hypothesis(tuple(row), total := sum(each), total, tuple(each))]
            for row, each in zip(tokens, log_probs, strict=True)
        ]

    def stream(
        self, model: Autoregressive[Any], source: Any, prefix: Padded | None = None
    ) -> Iterator[tuple[int, ...]]:
        """Each token when it is chosen."""
        tokens: tuple[int, ...] = ()
        for _, token_N, _ in self._steps(model, source, prefix):
            tokens = (*tokens, int(token_N[0]))
            yield tokens

    @torch.inference_mode()
    def _steps(
        self, model: Autoregressive[Any], source: Any, prefix: Padded | None
    ) -> Iterator[tuple[list[int], Tensor, Tensor]]:
        """What is written in each step: rows, their tokens [N], the tokens' log-probabilities."""
        front, begun = begin(model, source, prefix, self.filters, self.max_length)
        source_N = torch.arange(len(front.token_N), device=front.token_N.device)
        going_N = torch.ones_like(source_N, dtype=torch.bool)
        for token_N, log_prob_N in zip(begun.tokens_BT.unbind(1), begun.log_probs_BT.unbind(1), strict=True):
            yield source_N.tolist(), token_N, log_prob_N
        for place in range(begun.tokens_BT.shape[1], self.max_length):
            following, front = advance(model, self.filters, front, place, last=place == self.max_length - 1)
            token_N = largest(following.scores_NV, 1)[1][:, 0]
            yield source_N[going_N].tolist(), token_N[going_N], following.log_prob(token_N)[going_N]
            going_N = going_N & (token_N != EOS)
            stay = staying(going_N)
            if not len(stay):
                break
            if len(stay) < len(going_N):
                token_N, source_N, going_N, front = tree.select((token_N, source_N, going_N, front), stay)
            front = front.write(token_N[:, None], self.filters)

    def force(self, model: Autoregressive[Any], source: Any, target: Padded) -> list[Hypothesis]:
        return force(model, source, target)

    def resized(self, size: int | None = None, nbest: int | None = None) -> Greedy | Beam:
        """More than one are for a beam to find."""
        if size is None and nbest is None:
            return self
        return Beam(max_length=self.max_length, filters=self.filters).resized(size, nbest)

    def constrained(self, held: Held) -> Greedy:
        held.check_nothing_required(type(self).__name__)
        return replace(self, filters=held.filters(self.filters, self.max_length))
