"""The number of floating-point operations in matrix products.

PyTorch's own counter knows ``mm`` and convolutions. The formulas here add the kernels that PyTorch uses on a processor:
fused attention, fused LSTMs, and oneDNN's linear layer. One multiplication and one addition are two operations.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, cast

import torch
from torch.utils.flop_counter import FlopCounterMode

Shape = torch.Size


def counter() -> FlopCounterMode:
    """A context that counts the operations of the products inside it; ``get_total_flops`` returns their number.

    It counts in this process only. Kernels without a formula are not counted. It slows the code down.
    """
    found: Any = FlopCounterMode(display=False, custom_mapping=_formulas())
    found.mod_tracker = _Untracked()  # its own tracker fails in torch.autograd.grad with respect to a parameter
    return cast(FlopCounterMode, found)


class _Untracked:
    """Stands for torch's ``ModuleTracker``, and gives all operations to one sum instead of one for each module."""

    parents = ("Global",)

    def __enter__(self) -> None: ...

    def __exit__(self) -> None: ...


def _formulas() -> dict[Any, Callable[..., int]]:
    """The formula of each kernel that this version of PyTorch has."""
    known = {
        (torch.ops.aten, "mkldnn_rnn_layer"): _lstm,
        (torch.ops.aten, "mkldnn_rnn_layer_backward"): _lstm_backward,
        (torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu"): _attention,
        (torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu_backward"): _attention_backward,
        (torch.ops.mkldnn, "_linear_pointwise"): _linear,
    }
    return {getattr(owner, name): formula for (owner, name), formula in known.items() if hasattr(owner, name)}


def _linear(x: Shape, weight: Shape, *_: Any, **__: Any) -> int:
    return 2 * prod(x) * weight[0]


def _lstm(x: Shape, inputs: Shape, states: Shape, *_: Any, **__: Any) -> int:
    """The operations of one LSTM layer in one direction: x [T, B, D] times the weights [4 W, D] of inputs and [4 W, W]
    of states.
    """
    return 2 * x[0] * x[1] * (prod(inputs) + prod(states))


def _lstm_backward(x: Shape, inputs: Shape, states: Shape, *_: Any, **__: Any) -> int:
    return 2 * _lstm(x, inputs, states)


def _attention(query: Shape, key: Shape, value: Shape, *_: Any, **__: Any) -> int:
    """The operations of query [B, H, T, D], key [B, H, S, D] and value [B, H, S, D']: energies and contexts."""
    return 2 * prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


def _attention_backward(_: Shape, query: Shape, key: Shape, value: Shape, *__: Any, **___: Any) -> int:
    """The operations of five products: the energies again, and the gradients of weights, query, key and value."""
    return 2 * prod(query[:-1]) * key[-2] * (3 * query[-1] + 2 * value[-1])
