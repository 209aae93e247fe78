"""Torch's fused LSTM and GRU as operators of their own, so that an exported graph keeps them.

``torch.export`` writes torch's own operators out step by step, for the number of steps in the example. Cells call these
operators only during an export. B rows, T positions, D features, W the cell's width.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def is_exporting() -> bool:
    """True while ``torch.export`` follows the model. Versions of torch that cannot tell: while it compiles anything."""
    return getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)()


def is_search_step(x_BTD: Tensor) -> bool:
    """True if the input is a single position on the CPU, without gradients and outside an export. There torch's kernels
    prepare their weights anew in each call, and take several times as long as the products of a step.
    """
    return not is_exporting() and x_BTD.shape[1] == 1 and x_BTD.device.type == "cpu" and not torch.is_grad_enabled()


@torch.library.custom_op("transduce::lstm", mutates_args=())
def lstm(x_BTD: Tensor, h_BW: Tensor, c_BW: Tensor, weights: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs [B, T, W], and h and c [B, W] after position T. ``weights`` are the four of an ``nn.LSTM``: of the input
    [4W, D], of the state [4W, W], and their biases [4W].
    """
    y_BTW, h_1BW, c_1BW = torch.lstm(x_BTD, (h_BW[None], c_BW[None]), list(weights), True, 1, 0.0, False, False, True)
    return y_BTW, h_1BW[0].clone(), c_1BW[0].clone()


@torch.library.custom_op("transduce::gru", mutates_args=())
def gru(x_BTD: Tensor, h_BW: Tensor, weights: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Outputs [B, T, W], and h [B, W] after position T. ``weights`` are the four of an ``nn.GRU``, in the order of
    ``lstm``, with 3W rows.
    """
    y_BTW, h_1BW = torch.gru(x_BTD, h_BW[None], list(weights), True, 1, 0.0, False, False, True)
    return y_BTW, h_1BW[0].clone()


@lstm.register_fake
def _(x_BTD: Tensor, h_BW: Tensor, c_BW: Tensor, weights: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    return x_BTD.new_empty(*x_BTD.shape[:2], h_BW.shape[1]), torch.empty_like(h_BW), torch.empty_like(c_BW)


@gru.register_fake
def _(x_BTD: Tensor, h_BW: Tensor, weights: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    return x_BTD.new_empty(*x_BTD.shape[:2], h_BW.shape[1]), torch.empty_like(h_BW)
