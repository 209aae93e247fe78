"""Linear layers: their initialisation and their computation."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from transduce.compute.autograd import Context
from transduce.compute.packing import ONEDNN, in_few_shapes, packed

FEW = 8  # rows; MKL is as fast below this
MUCH = 2**26  # multiplications in a product with gradients: below this, making kernels costs what oneDNN gains
MANY = 256  # rows of a product under autocast: up to this, rows of zeros cost what fewer kernels gain


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W' + b: maps x [..., inputs] to [..., outputs], with ``weight`` W [outputs, inputs]. Further axes of a weight
    are flattened.

    In a model that only predicts, W may be packed (``compute.packing``). Otherwise this uses oneDNN for float32 on a
    CPU that has AVX-512 and is not Intel's. There PyTorch's own choice, MKL, leaves half of the speed unused. Elsewhere
    MKL is faster. oneDNN needs 2 ms to make a kernel for each new shape, and batches of training have many shapes: with
    gradients, only large products use it.

    Under autocast to bfloat16, oneDNN computes on every CPU. There, many rows get rows of zeros, so that few shapes
    occur.
    """
    if x.device.type != "cpu" or torch.compiler.is_compiling():  # a graph for another machine knows other operators
        return _pytorchs(x, weight, bias)
    if torch.is_autocast_enabled("cpu"):
        if x.numel() <= MANY * x.shape[-1] or x.dtype == torch.float64:  # which autocast does not convert
            return _pytorchs(x, weight, bias)
        return in_few_shapes(x, lambda x_NI: _pytorchs(x_NI, weight, bias), _Filled.apply)
    if x.dtype == torch.float32 == weight.dtype:
        gradients = torch.is_grad_enabled()
        if not gradients and (copy := packed(weight)) is not None:
            return copy.multiply(x, weight, bias)
        if ONEDNN and not gradients and x.numel() >= FEW * x.shape[-1]:
            return in_few_shapes(x, lambda x_NI: _product(x_NI, weight.flatten(1), bias))
        if ONEDNN and gradients and x.numel() * len(weight) >= MUCH:
            y_NO: Tensor = _Product.apply(x.flatten(0, -2), weight.flatten(1), bias)  # type: ignore[no-untyped-call]
            return y_NO.view(*x.shape[:-1], len(weight))
    return _pytorchs(x, weight, bias)


def _pytorchs(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return nn.functional.linear(x, weight if weight.ndim == 2 else weight.flatten(1), bias)


class _Rows(Protocol):
    rows: int
    type: torch.dtype


class _Filled(torch.autograd.Function):
    """Rows x [N, inputs] in autocast's type, and ``more`` rows of zeros. The conversion has to copy x anyway."""

    @staticmethod
    def forward(ctx: _Rows, x_NI: Tensor, more: int) -> Tensor:
        ctx.rows, ctx.type = len(x_NI), x_NI.dtype
        filled_NI = x_NI.new_empty(len(x_NI) + more, x_NI.shape[1], dtype=torch.get_autocast_dtype("cpu"))
        filled_NI[: len(x_NI)] = x_NI
        filled_NI[len(x_NI) :] = 0
        return filled_NI

    @staticmethod
    @once_differentiable
    def backward(ctx: _Rows, gradient_NI: Tensor) -> tuple[Tensor, None]:
        return gradient_NI[: ctx.rows].to(ctx.type), None


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``linear`` by oneDNN, without a gradient.

    A weight that is a part of a wider matrix is copied: oneDNN has no fast kernel for it and takes a thousand times as
    long.
    """
    if not (weight.is_contiguous() or weight.t().is_contiguous()):
        weight = weight.contiguous()
    y: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return y


class _Product(torch.autograd.Function):
    """``linear`` of rows x [N, inputs] by oneDNN. All three products, of the output and of both gradients, are fast."""

    @staticmethod
    def forward(ctx: Context, x_NI: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
        ctx.save_for_backward(x_NI, weight_OI)
        return _product(x_NI, weight_OI, bias_O)

    @staticmethod
    @once_differentiable
    def backward(ctx: Context, gradient_NO: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x_NI, weight_OI = ctx.saved_tensors
        for_x, for_weight, for_bias = ctx.needs_input_grad
        return (
            _product(gradient_NO, weight_OI.t()) if for_x else None,
            _weight_gradient(gradient_NO, x_NI) if for_weight else None,
            gradient_NO.new_ones(len(gradient_NO)) @ gradient_NO if for_bias else None,  # a third of a sum's time
        )


def _weight_gradient(gradient_NO: Tensor, x_NI: Tensor) -> Tensor:
    """The gradient of a weight, [O, I]. The narrower matrix is the first factor, because oneDNN copies that one if it
    is transposed.
    """
    if gradient_NO.shape[1] <= x_NI.shape[1]:
        return _product(gradient_NO.t(), x_NI.t())
    return _product(x_NI.t(), gradient_NO.t()).t()


class Linear(nn.Linear):
    """An ``nn.Linear`` that computes its product with the function ``linear`` of this module."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


def projection(inputs: int, outputs: int, parts: int = 1, bias: bool = True) -> Linear:
    """A linear layer from ``inputs`` to ``parts`` * ``outputs`` features: stacked matrices, one for each part.

    Each matrix has Glorot's uniform initialisation. Biases start at 0.
    """
    made = Linear(inputs, parts * outputs, bias)
    for part in made.weight.data.chunk(parts):
        nn.init.xavier_uniform_(part)
    if bias:
        nn.init.zeros_(made.bias)
    return made
