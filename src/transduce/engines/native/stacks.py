"""An encoder or a decoder as the library's structures, made of an export's tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from transduce.engines.native.library import Layer, Norm, Stack
from transduce.engines.native.matrices import Matrix

ACTIVATIONS = {"relu": 1, "gelu": 2, "swish": 3}
MATRICES = ("project", "out", "query", "read_out", "widen", "narrow")
NORMS = ("mixer_norm", "memory_norm", "feedforward_norm")


class NativeStack:
    """The structure ``Stack`` of the library, and all that it points to.

    ``tensors`` has the tensors of the export, whose names begin with ``side``: "encoder" or "decoder". ``notes`` has
    the numbers that describe the stack.
    """

    def __init__(self, functions: Any, tensors: Mapping[str, Tensor], side: str, notes: Mapping[str, Any]) -> None:
        self._kept: list[Any] = []  # memory that the structures point to
        self._functions, self._tensors, self._side = functions, tensors, side
        embedding_VW = self._float(str(notes["embedding"]))
        positions_PW = self._float(f"{side}.positions")
        self.vocabulary, self.width = embedding_VW.shape
        self.most_positions = len(positions_PW)
        count = notes["layers"]
        layers = (Layer * count)(*(self._layer(f"{side}.{number}") for number in range(count)))
        self.table = Stack(
            self.width,
            notes["heads"],
            count,
            self.vocabulary,
            self.most_positions,
            notes["pre_norm"],
            ACTIVATIONS[notes["activation"]],
            notes["embedding_scale"],
            notes["eps"],
            embedding_VW.data_ptr(),
            positions_PW.data_ptr(),
            self._norm(f"{side}.norm"),
            layers,
        )
        self._kept.append(layers)

    def _layer(self, name: str) -> Layer:
        layer = Layer()
        for each in NORMS:
            setattr(layer, each, self._norm(f"{name}.{each}"))
        for each in MATRICES:
            if f"{name}.{each}.weight" in self._tensors:
                matrix = matrix_of(self._functions, self._tensors, f"{name}.{each}")
                self._kept.append(matrix)
                setattr(layer, each, matrix.handle)
        return layer

    def _norm(self, name: str) -> Norm:
        """The norm, or one without parameters if the export has none of this name."""
        if f"{name}.weight" not in self._tensors:
            return Norm()
        return Norm(self._float(f"{name}.weight").data_ptr(), self._float(f"{name}.bias").data_ptr())

    def _float(self, name: str) -> Tensor:
        tensor = self._tensors[name].float().contiguous()
        self._kept.append(tensor)
        return tensor


def matrix_of(functions: Any, tensors: Mapping[str, Tensor], name: str) -> Matrix:
    """The matrix with the tensors NAME.weight, NAME.scale (if it is 8-bit) and NAME.bias (if it has one)."""
    return Matrix(functions, tensors[f"{name}.weight"], tensors.get(f"{name}.scale"), tensors.get(f"{name}.bias"))
