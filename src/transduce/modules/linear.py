"""Linear layers: as they start, and as they are computed."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from transduce.compute.processor import multiplies_best_by_onednn

FEW = 8  # rows; below that MKL is as fast
ONEDNN = hasattr(torch.ops.mkldnn, "_linear_pointwise") and multiplies_best_by_onednn()


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W' + b for x [..., inputs].

    In float32 on the CPU, where no gradient is wanted, by oneDNN where the processor has AVX-512 and is not Intel's:
    there PyTorch's own choice, MKL, leaves half of it unused. Elsewhere MKL is the faster one, and has no kernel to
    make for each new shape, which costs oneDNN 2 ms.
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
    """``nn.Linear`` by ``linear``."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


def projection(inputs: int, outputs: int, parts: int = 1, bias: bool = True) -> Linear:
    """A linear layer of ``parts`` stacked matrices, each with Glorot's uniform initialisation, biases 0."""
    made = Linear(inputs, parts * outputs, bias)
    for part in made.weight.data.chunk(parts):
        nn.init.xavier_uniform_(part)
    if bias:
        nn.init.zeros_(made.bias)
    return made
