"""Scores a given output instead of searching for one."""

from __future__ import annotations

import torch
from torch import Tensor

from transduce.core import tree
from transduce.core.protocols import Autoregressive, S
from transduce.core.types import BOS, EOS, Hypothesis, Padded
from transduce.search.reading import log_probs


@torch.inference_mode()
def force(model: Autoregressive[S], source: Padded, target: Padded) -> list[Hypothesis]:
    """Scores given outputs by teacher forcing: log p(target | source). ``target`` are ids [B, T]; each row ends with
    EOS.

    Returns one hypothesis per source. Its ``score`` is its log-probability. It also has the model's first choices
    (``best_log_probs`` and ``right``).
    """
    output, _ = model.extend(shifted(target), model.start(source))
    mask_BT = target.mask
    target_N = target.values[mask_BT]
    log_prob_N, best_N, right_N = log_probs(model, tree.map(lambda leaf: leaf[mask_BT], output), target_N)
    return forced_hypotheses(target.lengths.tolist(), target_N, log_prob_N, best_N, right_N)


def forced_hypotheses(
    lengths: list[int], target_N: Tensor, log_prob_N: Tensor, best_N: Tensor, right_N: Tensor
) -> list[Hypothesis]:
    """One hypothesis for each of the given outputs. ``target_N`` has the tokens of all outputs, one output after the
    other. ``lengths`` are their numbers of tokens. The other tensors [N] are the results of ``reading.log_probs``.
    """
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


def shifted(target: Padded) -> Tensor:
    """The decoder's input [B, T] for ``target``: BOS, then all columns of ``target`` except the last."""
    ids_BT = target.values
    return torch.cat([torch.full_like(ids_BT[:, :1], BOS), ids_BT[:, :-1]], 1)


def shifted_text(target_BT: Tensor, history_BC: Tensor) -> Tensor:
    """The decoder's input [B, C - 1 + T] for a part of a text: the tokens before it, ``history_BC``, and all columns of
    ``target_BT`` except the last. BOS replaces EOS, because a line begins with BOS in a text as it does alone.
    """
    ids_BT = torch.cat([history_BC, target_BT[:, :-1]], 1)
    return ids_BT.masked_fill(ids_BT == EOS, BOS)
