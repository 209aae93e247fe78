"""Weight matrices in the library's own order, made of tensors. O outputs, I inputs, M rows."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor

from transduce.core.types import Padded

ACTIVATIONS = {"none": 0, "relu": 1, "gelu": 2, "swish": 3, "tanh": 4}  # the numbers of numbers.h
LARGEST = 127  # of an 8-bit weight


def quantised(weight_OI: Tensor) -> tuple[Tensor, Tensor]:
    """A matrix as 8-bit integers [O, I] and the scale of each output [O]: weight = integer * scale, rounded. The
    largest weight of an output becomes 127 or -127.
    """
    weight_OI = weight_OI.float()
    scale_O = weight_OI.abs().amax(1) / LARGEST
    integers_OI = (weight_OI / scale_O.clamp(min=torch.finfo(torch.float32).tiny)[:, None]).round()
    return integers_OI.clamp(-LARGEST, LARGEST).to(torch.int8), scale_O


class Matrix:
    """A packed copy of a matrix [O, I], which the library multiplies with rows. It is 8-bit if ``scale_O`` is given."""

    def __init__(self, functions: Any, weight_OI: Tensor, scale_O: Tensor | None, bias_O: Tensor | None) -> None:
        self.outputs, self.inputs = weight_OI.shape
        self._functions, self._multiply = functions, functions.transduce_multiply
        bias = None if bias_O is None else bias_O.float().contiguous()
        weight, size = weight_OI.contiguous(), (self.outputs, self.inputs)
        if scale_O is None:
            self.handle = functions.transduce_pack_floats(weight.float().data_ptr(), _address(bias), *size)
        else:
            scale = scale_O.float().contiguous()
            addresses = weight.data_ptr(), scale.data_ptr(), _address(bias)
            self.handle = functions.transduce_pack_integers(*addresses, *size)
        weakref.finalize(self, functions.transduce_free, self.handle)

    def __call__(self, x: Tensor, activation: str = "none") -> Tensor:
        """activation(x W' + b): maps rows [..., I] in float32 to [..., O]."""
        rows = x.float().contiguous()
        *shape, inputs = rows.shape
        y = torch.empty(*shape, self.outputs)
        count = shape[0] if len(shape) == 1 else rows.numel() // inputs
        self._multiply(self.handle, rows.data_ptr(), y.data_ptr(), count, ACTIVATIONS[activation])
        return y

    def of_real(self, x: Padded) -> Tensor:
        """The same for real positions of rows [B, S, I]; zeros elsewhere."""
        rows, lengths_B = x.values.float().contiguous(), x.lengths.contiguous()
        y = torch.empty(*rows.shape[:-1], self.outputs)
        pointers = rows.data_ptr(), y.data_ptr(), lengths_B.data_ptr()
        self._functions.transduce_multiply_real(self.handle, *pointers, *rows.shape[:2])
        return y


class Readout(Matrix):
    """The matrix of a model's ``readout``. It can multiply for a shortlist alone.

    A shortlist is packed once, and kept until another one comes: the steps of a search have the same.
    """

    def __init__(self, functions: Any, weight_OI: Tensor, scale_O: Tensor | None, bias_O: Tensor | None) -> None:
        super().__init__(functions, weight_OI, scale_O, bias_O)
        self._weight_OI, self._of_outputs = weight_OI, (scale_O, bias_O)
        self._listed: tuple[Tensor, Matrix] | None = None

    def logits(self, features: Tensor, candidates: Tensor | None) -> Tensor:
        """The outputs for ``features`` [..., I], or only the outputs of ``candidates`` [C]."""
        return self(features) if candidates is None else self._only(candidates)(features)

    def _only(self, candidates: Tensor) -> Matrix:
        listed = self._listed
        if listed is None or listed[0] is not candidates:
            scale_C, bias_C = (None if each is None else each.index_select(0, candidates) for each in self._of_outputs)
            packed = Matrix(self._functions, self._weight_OI.index_select(0, candidates), scale_C, bias_C)
            listed = self._listed = candidates, packed
        return listed[1]


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
