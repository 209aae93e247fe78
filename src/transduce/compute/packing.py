"""Copies of weight matrices in the order in which a kernel reads them, for models that only predict.

A step of a search multiplies few rows, so its time is the time to read its matrices from memory. O outputs, I inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from transduce.compute.processor import multiplies_best_by_onednn

ONEDNN = hasattr(torch.ops.mkldnn, "_linear_pointwise") and multiplies_best_by_onednn()

C = TypeVar("C")  # a kernel's copy of a matrix and a bias


class Packing(Protocol[C]):
    """A kernel. ``pack`` makes its copy of a matrix and a bias. ``multiply`` returns x W' + b from this copy and from
    rows x [..., I] in float32.
    """

    def pack(self, weight_OI: Tensor, bias: Tensor | None) -> C: ...

    def multiply(self, x: Tensor, copy: C) -> Tensor: ...


class OneDNNPacking:
    """Products in float32 by oneDNN, with the matrix in oneDNN's own order of blocks."""

    def pack(self, weight_OI: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
        return torch.ops.mkldnn._reorder_linear_weight(weight_OI), bias

    def multiply(self, x: Tensor, copy: tuple[Tensor, Tensor | None]) -> Tensor:
        return in_few_shapes(x, lambda x_NI: torch.ops.mkldnn._linear_pointwise.default(x_NI, *copy, "none", [], ""))


def _with_zeros(x_NI: Tensor, more: int) -> Tensor:
    return nn.functional.pad(x_NI, (0, 0, 0, more))


def in_few_shapes(
    x: Tensor, multiply: Callable[[Tensor], Tensor], fill: Callable[[Tensor, int], Tensor] = _with_zeros
) -> Tensor:
    """Returns ``multiply(x)``, a product of each row of x [..., I]. Adds rows of zeros before, so that few shapes
    occur. ``fill`` adds them, and may also convert the rows.

    oneDNN makes a kernel for each number of rows, which takes milliseconds, and does not free all of its memory. A
    search has every number of rows up to the batch size times the beam. So the memory of a server grew during a hundred
    thousand requests (docs/log.md, 2026-11-26). Batches of training have other numbers of rows in each update.
    """
    rows = x.numel() // max(1, x.shape[-1])
    more = _enough_rows(rows) - rows
    if not more:
        return multiply(x)
    filled_NI = fill(x.reshape(rows, x.shape[-1]), more)
    return multiply(filled_NI)[:rows].view(*x.shape[:-1], -1)


def _enough_rows(rows: int) -> int:
    """``rows``, rounded up: not up to 8, then to a multiple of 8, from 128 on of 16, from 256 on of 32, and so on."""
    step = 1 if rows <= 8 else max(8, 1 << rows.bit_length() - 4)
    return -(-rows // step) * step


class HalfPacking:
    """Products with a matrix in float16, summed in float32, by FBGEMM. A row's result does not depend on other rows."""

    def pack(self, weight_OI: Tensor, bias: Tensor | None) -> object:
        return torch.ops.quantized.linear_prepack_fp16(weight_OI, bias)

    def multiply(self, x: Tensor, copy: object) -> Tensor:
        return _half_product()(x, copy)


@cache
def _half_product() -> Callable[[Tensor, object], Tensor]:
    """FBGEMM's operator, or its ``_op`` if PyTorch has it. The latter leaves out checks in Python that take a third of
    the time of a small product.
    """
    operator = torch.ops.quantized.linear_dynamic_fp16.default
    return getattr(operator, "_op", operator)


def multiplies_halves() -> bool:
    """True if this PyTorch has FBGEMM's product with a matrix in float16: usually on x86 processors, never on ARM."""
    has = hasattr(torch.ops.quantized, "linear_dynamic_fp16")
    return has and torch.backends.quantized.engine in ("x86", "fbgemm")


class Packed:
    """The packed copy of a weight matrix [O, I] with its bias. The other axes of a matrix [O, ...] are flattened.

    The first product makes the copy. So an embedding that is only looked up has no copy. A product makes it again if
    the bias is another one, or if the weights were changed in place.
    """

    def __init__(self, packing: Packing[Any]) -> None:
        self._packing = packing
        self._copy: object = None
        self._bias: Tensor | None = None
        self._versions = (-1, -1)

    def multiply(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """x W' + b, for x [..., I] in float32."""
        versions = (weight._version, -1 if bias is None else bias._version)
        if bias is not self._bias or versions != self._versions:
            own = None if bias is None else bias.detach()
            self._copy = self._packing.pack(weight.detach().flatten(1), own)
            self._bias, self._versions = bias, versions
        return self._packing.multiply(x, self._copy)


def pack(matrices: Iterable[nn.Parameter], packing: Packing[C]) -> None:
    """Prepares a packed copy of each matrix, which ``packed`` returns."""
    for matrix in matrices:
        matrix.packed = Packed(packing)  # type: ignore[attr-defined]


def packed(weight: Tensor) -> Packed | None:
    """The packed copy of a weight matrix, or None if ``pack`` prepared none."""
    return getattr(weight, "packed", None)
