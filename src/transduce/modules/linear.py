"""Linear layers: their initialisation and their computation."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.compute.processor import multiplies_best_by_onednn

FEW = 8  # rows; MKL is as fast below this
ONEDNN = hasattr(torch.ops.mkldnn, "_linear_pointwise") and multiplies_best_by_onednn()


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W' + b: maps x [..., inputs] to [..., outputs], with ``weight`` W [outputs, inputs].

    Uses oneDNN for float32 without gradients on a CPU that has AVX-512 and is not Intel's. There PyTorch's own choice,
    MKL, leaves half of the speed unused. Elsewhere MKL is faster; oneDNN also needs 2 ms to make a kernel for each new
    shape.
    """
    if (
        ONEDNN
        and x.dtype == torch.float32 == weight.dtype
        and x.device.type == "cpu"
        and x.numel() >= FEW * x.shape[-1]
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
    ):
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
        return y
    return nn.functional.linear(x, weight, bias)


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
