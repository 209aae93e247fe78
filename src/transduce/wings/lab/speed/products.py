"""The number of floating-point operations in matrix products.

PyTorch's own counter knows ``mm`` and convolutions. The formulas here add the kernels that PyTorch uses on a processor:
fused attention, fused LSTMs, and oneDNN's linear layer. One multiplication and one addition are two operations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import prod
from typing import cast

import torch
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.module_tracker import ModuleTracker

Shape = torch.Size


class ProductCounter(FlopCounterMode):
    """A context that counts the operations of the products inside it; ``get_total_flops`` returns their number.
    ``shapes`` has the operations of each shape of a matrix product: rows, inner, columns.

    It counts in this process only. Kernels without a formula are not counted. It slows the code down.
    """

    def __init__(self) -> None:
        self.shapes: Counter[tuple[int, int, int]] = Counter()
        super().__init__(display=False, custom_mapping=_formulas(self._product))
        # the class's own tracker fails in torch.autograd.grad by a parameter
        self.mod_tracker = cast(ModuleTracker, _Untracked())

    def _product(self, rows: int, inner: int, columns: int) -> int:
        operations = 2 * rows * inner * columns
        self.shapes[rows, inner, columns] += operations
        return operations


class _Untracked:
    """Stands for torch's ``ModuleTracker``, and gives all operations to one sum instead of one for each module."""

    parents = ("Global",)

    def __enter__(self) -> None: ...

    def __exit__(self) -> None: ...


def _formulas(product: Callable[[int, int, int], int]) -> dict[object, Callable[..., int]]:
    """The formula of each kernel that this version of PyTorch has. ``product`` counts a product of two matrices."""

    def mm(a: Shape, b: Shape, *_: object, **__: object) -> int:
        return product(a[0], a[1], b[1])

    def addmm(_: Shape, a: Shape, b: Shape, *__: object, **___: object) -> int:
        return product(a[0], a[1], b[1])

    def linear(x: Shape, weight: Shape, *_: object, **__: object) -> int:
        return product(prod(x[:-1]), x[-1], weight[0])

    known: dict[tuple[object, str], Callable[..., int]] = {
        (torch.ops.aten, "mm"): mm,
        (torch.ops.aten, "addmm"): addmm,
        (torch.ops.aten, "mkldnn_rnn_layer"): _lstm,
        (torch.ops.aten, "mkldnn_rnn_layer_backward"): _lstm_backward,
        (torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu"): _attention,
        (torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu_backward"): _attention_backward,
        (torch.ops.mkldnn, "_linear_pointwise"): linear,
    }
    return {getattr(owner, name): formula for (owner, name), formula in known.items() if hasattr(owner, name)}


def _lstm(x: Shape, inputs: Shape, states: Shape, *_: object, **__: object) -> int:
    """The operations of one LSTM layer in one direction: x [T, B, D] times the weights [4 W, D] of inputs and [4 W, W]
    of states.
    """
    return 2 * x[0] * x[1] * (prod(inputs) + prod(states))


def _lstm_backward(x: Shape, inputs: Shape, states: Shape, *_: object, **__: object) -> int:
    return 2 * _lstm(x, inputs, states)


def _attention(query: Shape, key: Shape, value: Shape, *_: object, **__: object) -> int:
    """The operations of query [B, H, T, D], key [B, H, S, D] and value [B, H, S, D']: energies and contexts."""
    return 2 * prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


def _attention_backward(_: Shape, query: Shape, key: Shape, value: Shape, *__: object, **___: object) -> int:
    """The operations of five products: the energies again, and the gradients of weights, query, key and value."""
    return 2 * prod(query[:-1]) * key[-2] * (3 * query[-1] + 2 * value[-1])
