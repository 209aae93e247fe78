"""Greedy search: the most probable token at each step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from transduce import tree
from transduce.search.beam import Beam
from transduce.search.forcing import force
from transduce.search.step import check_length, first_tokens, forbid_specials, step
from transduce.types import EOS, Autoregressive, Hypothesis, Padded


@dataclass(frozen=True)
class Greedy:
    """The most probable token at each step, until EOS; token number ``max_length`` is EOS whatever its probability."""

    max_length: int = 200

    def __post_init__(self) -> None:
        check_length(self.max_length)

    @torch.inference_mode()
    def __call__(self, model: Autoregressive[Any], source: Any) -> list[list[Hypothesis]]:
        rows, device = tree.rows(source), tree.leaves(source)[0].device
        state, token_N, source_N = model.start(source), first_tokens(rows, device), torch.arange(rows, device=device)
        tokens: list[list[int]] = [[] for _ in range(rows)]
        log_probs: list[list[float]] = [[] for _ in range(rows)]
        for length in range(1, self.max_length + 1):
            logits_NV, normaliser_N, state = step(model, token_N, state)
            if length < self.max_length:
                token_N = forbid_specials(logits_NV).argmax(-1)
            else:
                token_N = torch.full_like(token_N, EOS)
            log_prob_N = logits_NV.gather(1, token_N[:, None])[:, 0] - normaliser_N
            for row, token, log_prob in zip(source_N.tolist(), token_N.tolist(), log_prob_N.tolist(), strict=True):
                tokens[row].append(token)
                log_probs[row].append(log_prob)
            going = token_N != EOS
            if not going.all():  # finished rows leave the batch
                stay = going.nonzero()[:, 0]
                if not len(stay):
                    break
                token_N, source_N, state = token_N[stay], source_N[stay], tree.select(state, stay)
        return [
            [Hypothesis(tuple(row), total := sum(each), total, tuple(each))]
            for row, each in zip(tokens, log_probs, strict=True)
        ]

    def force(self, model: Autoregressive[Any], source: Any, target: Padded) -> list[Hypothesis]:
        return force(model, source, target)

    def resized(self, size: int | None = None, nbest: int = 1) -> Beam:
        return Beam(max_length=self.max_length).resized(size, nbest)
