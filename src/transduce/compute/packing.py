"""Copies of weight matrices in the order in which a kernel reads them, for models that only predict.

A step of a search multiplies few rows, so it takes as long as its matrices need to come from memory. O outputs, I
inputs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from transduce.compute.processor import multiplies_best_by_onednn

ONEDNN = hasattr(torch.ops.mkldnn, "_linear_pointwise") and multiplies_best_by_onednn()


class Packing(Protocol):
    """A kernel: ``pack`` makes its copy of a matrix, and ``multiply`` returns x W' + b from rows x [..., I] in float32
    and that copy.
    """

    def pack(self, weight_OI: Tensor) -> Any: ...

    def multiply(self, x: Tensor, copy: Any, bias: Tensor | None) -> Tensor: ...


class OneDNNPacking:
    """Products in float32 by oneDNN, with the matrix in blocks of its own order."""

    def pack(self, weight_OI: Tensor) -> Tensor:
        copy: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight_OI)
        return copy

    def multiply(self, x: Tensor, copy: Tensor, bias: Tensor | None) -> Tensor:
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, copy, bias, "none", [], "")
        return y


class HalfPacking:
    """Products with a matrix in float16, summed in float32, by FBGEMM. A row's result does not depend on other rows."""

    def pack(self, weight_OI: Tensor) -> Any:
        return torch.ops.quantized.linear_prepack_fp16(weight_OI, None)

    def multiply(self, x: Tensor, copy: Any, bias: Tensor | None) -> Tensor:
        y: Tensor = torch.ops.quantized.linear_dynamic_fp16(x, copy)
        return y if bias is None else y.add_(bias)


def multiplies_halves() -> bool:
    """True if this PyTorch has FBGEMM's product with a matrix in float16: usually on x86 processors, never on ARM."""
    has = hasattr(torch.ops.quantized, "linear_dynamic_fp16")
    return has and torch.backends.quantized.engine in ("x86", "fbgemm")


class Packed:
    """A weight matrix [O, I] (or [O, ...], whose other axes are flattened) and its packed copy.

    The first product makes the copy, so a matrix that is only looked up, as an embedding is, has none. A product after
    the weights were changed in place makes it again.
    """

    def __init__(self, packing: Packing) -> None:
        self._packing = packing
        self._copy: Any = None
        self._version = -1

    def multiply(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """x W' + b, for x [..., I] in float32."""
        if self._version != weight._version:
            self._copy, self._version = self._packing.pack(weight.detach().flatten(1)), weight._version
        return self._packing.multiply(x, self._copy, bias)


def pack(matrices: Iterable[nn.Parameter], packing: Packing) -> None:
    """Prepares a packed copy of each matrix, which ``packed`` returns."""
    for matrix in matrices:
        matrix.packed = Packed(packing)  # type: ignore[attr-defined]


def packed(weight: Tensor) -> Packed | None:
    """The packed copy of a weight matrix, or None if ``pack`` prepared none."""
    found: Packed | None = getattr(weight, "packed", None)
    return found
