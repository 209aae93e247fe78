"""One step of any search: the distribution over the next token."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor

from transduce import tree
from transduce.types import BOS, EOS, PAD, Autoregressive

S = TypeVar("S")


def step(model: Autoregressive[S], token_N: Tensor, state: S) -> tuple[Tensor, Tensor, S]:
    """Logits [N, V] of the next token, at least in float32, the logarithm of their normaliser [N], and the state.

    Log-probabilities are ``logits - normaliser``; a search subtracts it from the few entries it wants.
    """
    output, state = model.extend(token_N[:, None], state)
    logits_NV = model.readout(tree.map(lambda leaf: leaf[:, -1], output))
    if logits_NV.dtype != torch.float64:
        logits_NV = logits_NV.float()
    return logits_NV, logits_NV.logsumexp(-1), state


def forbid_specials(logits_NV: Tensor) -> Tensor:
    """What is never an output made impossible: padding, and a second beginning. Their probability stays lost."""
    logits_NV[:, [PAD, BOS]] = float("-inf")
    return logits_NV


def first_tokens(rows: int, device: torch.device) -> Tensor:
    return torch.full((rows,), BOS, dtype=torch.long, device=device)


def check_length(max_length: int) -> None:
    if max_length < 1:
        raise ValueError(f"max_length = {max_length}: an output has at least one token, its end (id {EOS})")
