"""Scores a given output instead of searching for one."""

from __future__ import annotations

from typing import Any

import torch

from transduce import tree
from transduce.protocols import Autoregressive
from transduce.search.step import log_probs
from transduce.types import BOS, Hypothesis, Padded


@torch.inference_mode()
def force(model: Autoregressive[Any], source: Any, target: Padded) -> list[Hypothesis]:
    """Scores given outputs by teacher forcing: log p(target | source). ``target`` are ids [B, T]; each row ends with
    EOS.

    Returns one hypothesis per source. Its ``score`` is its log-probability. It also has the model's first choices
    (``best_log_probs`` and ``right``).
    """
    output, _ = model.extend(shifted(target), model.start(source))
    mask_BT = target.mask
    target_N = target.values[mask_BT]
    log_prob_N, best_N, right_N = log_probs(model, tree.map(lambda leaf: leaf[mask_BT], output), target_N)
    lengths = target.lengths.tolist()
    rows = zip(*(torch.split(each_N, lengths) for each_N in (target_N, log_prob_N, best_N, right_N)), strict=True)
    return [
        Hypothesis(
            tuple(tokens.tolist()),
            total := float(each.sum()),
            total,
            tuple(each.tolist()),
            tuple(best.tolist()),
            tuple(right.tolist()),
        )
        for tokens, each, best, right in rows
    ]


def shifted(target: Padded) -> torch.Tensor:
    """The decoder's input [B, T] for ``target``: BOS, then all columns of ``target`` except the last."""
    ids_BT = target.values
    return torch.cat([torch.full_like(ids_BT[:, :1], BOS), ids_BT[:, :-1]], 1)
